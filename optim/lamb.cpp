#include "optim/lamb.h"

#include <algorithm>

#include "kernels/ops/optimizers/directions.h"

namespace comera {

LambOptimizer::LambOptimizer(ParameterStore& store, const OptimizerOptions& options, Allocator& allocator)
    : AdamWOptimizer(store, options, allocator) {
  std::vector<ParameterId> ids = store.layout();
  const auto has_ratio = [&](ParameterId id) { return store.info(id).decays; };
  scaled_ = std::distance(ids.begin(), std::stable_partition(ids.begin(), ids.end(), has_ratio));
  std::vector<ParameterSegment> segments;
  for (const ParameterId id : ids) {
    segments.push_back(segment_of(store, id, options));
    elements_ += segments.back().count;
    if (has_ratio(id)) scaled_elements_ += segments.back().count;
  }
  count_ = std::ssize(segments);
  segments_ = upload_table(allocator, segments);
  ratios_ = upload_table(allocator, std::vector<double>(count_, 1.0));
}

void LambOptimizer::update_parameters(const Context& context, const Tensor& step_inputs,
                                      const Tensor& step_results) const {
  const Moments flat = moments();
  run(context, AdamDirection{.directions = store_.gradients(),
                             .moment1 = flat.first,
                             .moment2 = flat.second,
                             .segments = segments_.bytes,
                             .segment_count = count_,
                             .elements = elements_,
                             .beta1 = options_.beta1,
                             .beta2 = options_.beta2,
                             .eps = options_.eps,
                             .step_inputs = step_inputs,
                             .results = step_results});
  const auto ratios = [&](std::int64_t count) { return ratios_.memory.tensor({count}, DType::float64); };
  run(context, TrustRatios{.parameters = store_.values(),
                           .directions = store_.gradients(),
                           .segments = segments_.bytes,
                           .ratios = ratios(scaled_),
                           .elements = scaled_elements_,
                           .weight_decay = options_.weight_decay,
                           .results = step_results});
  run(context, FollowDirections{.parameters = store_.values(),
                                .directions = store_.gradients(),
                                .segments = segments_.bytes,
                                .factors = ratios(count_),
                                .elements = elements_,
                                .step_inputs = step_inputs,
                                .results = step_results});
}

}  // namespace comera
