#include "optim/optimizer.h"

#include <algorithm>
#include <cmath>

#include "kernels/ops/elementwise/layout.h"
#include "optim/adamw.h"
#include "optim/galore.h"
#include "optim/lamb.h"
#include "optim/muon.h"

namespace comera {

const char* name_of(OptimizerKind kind) {
  constexpr const char* names[] = {"adamw", "muon", "lamb", "galore"};
  return names[static_cast<int>(kind)];
}

const char* name_of(GaloreProjection projection) {
  constexpr const char* names[] = {"std", "reverse_std", "right", "left", "full"};
  return names[static_cast<int>(projection)];
}

ParameterSegment segment_of(const ParameterStore& store, ParameterId id, const OptimizerOptions& options) {
  const ParameterInfo& info = store.info(id);
  const bool decays = info.decays && (info.role == ParameterRole::dense || options.decay_cores);
  return {store.offset(id),     info.shape.elements(), static_cast<std::int32_t>(group_of(info, options)),
          decays ? 1 : 0,       store.offset(id),      info.by_rows ? info.shape[1] : 0,
          store.mark_offset(id)};
}

DeviceTable upload_table(Allocator& allocator, const void* rows, std::size_t bytes) {
  DeviceTable table;
  table.memory = Buffer(allocator, bytes, MemoryKind::optimizer);
  table.bytes = table.memory.tensor({static_cast<std::int64_t>(bytes)}, DType::uint8);
  if (bytes > 0) allocator.upload(table.bytes.raw(), rows, bytes, allocator.stream());
  allocator.synchronize(allocator.stream());
  return table;
}

Optimizer::Optimizer(ParameterStore& store, const OptimizerOptions& options, Allocator& allocator)
    : store_(store), options_(options) {
  std::vector<ParameterSegment> all;
  for (const ParameterId id : store.layout()) all.push_back(segment_of(store, id, options));
  DeviceTable table = upload_table(allocator, all);
  table_memory_ = std::move(table.memory);
  segments_ = table.bytes;
  norm_memory_ = Buffer(allocator, all.size() * sizeof(double), MemoryKind::optimizer);
  norms_ = norm_memory_.tensor({std::ssize(all)}, DType::float64);
}

void Optimizer::measure(const Context& context, const Tensor& step_inputs, const Tensor& step_results) const {
  run(context, GradientNorm{.gradients = store_.gradients(),
                            .segments = segments_,
                            .norms = norms_,
                            .marks = store_.marks(),
                            .step_inputs = step_inputs,
                            .results = step_results});
}

void Optimizer::update(const Context& context, const Tensor& step_inputs, const Tensor& step_results) const {
  update_parameters(context, step_inputs, step_results);
  run(context, Fill{.x = store_.whole_gradients(), .value = 0});
  for (const ParameterId id : store_.layout())
    if (store_.info(id).by_rows)
      run(context, ClearTouchedRows{.gradient = store_.gradient(id), .marks = store_.marks(id)});
}

const std::string& Optimizer::first_nonfinite(const StepResults& results) const {
  const std::vector<double> norms = read_tensor(norms_, store_.allocator());
  ParameterId last = -1;  // in the order of a forward pass
  for (std::size_t segment = 0; segment < norms.size(); ++segment)
    if (!std::isfinite(norms[segment])) last = std::max(last, store_.layout()[segment]);
  return store_.info(last < 0 ? store_.layout()[results.first_nonfinite] : last).name;
}

std::unique_ptr<Optimizer> make_optimizer(ParameterStore& store, const OptimizerOptions& options,
                                          Allocator& allocator) {
  switch (options.kind) {
    case OptimizerKind::adamw:
      return std::make_unique<AdamWOptimizer>(store, options, allocator);
    case OptimizerKind::muon:
      return std::make_unique<MuonOptimizer>(store, options, allocator);
    case OptimizerKind::lamb:
      return std::make_unique<LambOptimizer>(store, options, allocator);
    case OptimizerKind::galore:
      return std::make_unique<GaloreOptimizer>(store, options, allocator);
  }
  throw_error("unknown optimizer kind");
}

}  // namespace comera
