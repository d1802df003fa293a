#include "optim/muon.h"

#include <algorithm>

namespace comera {

namespace {

bool is_matrix(const ParameterStore& store, ParameterId id) { return store.info(id).matrix_rows > 0; }

std::vector<ParameterId> others_than_matrices(const ParameterStore& store) {
  std::vector<ParameterId> ids;
  for (const ParameterId id : store.layout())
    if (!is_matrix(store, id)) ids.push_back(id);
  return ids;
}

}  // namespace

MuonOptimizer::MuonOptimizer(ParameterStore& store, const OptimizerOptions& options, Allocator& allocator)
    : AdamWOptimizer(store, options, allocator, others_than_matrices(store), layout_of(store)) {
  std::vector<MuonMatrix> matrices;
  for (const ParameterId id : store.layout()) {
    if (!is_matrix(store, id)) continue;
    ids_.push_back(id);
    const ParameterSegment segment = segment_of(store, id, options);
    if (segment.count == 0) continue;
    const std::int64_t rows = store.info(id).matrix_rows;
    MuonMatrix matrix{.offset = segment.offset,
                      .rows = static_cast<std::int32_t>(rows),
                      .columns = static_cast<std::int32_t>(segment.count / rows),
                      .group = segment.group,
                      .decays = segment.decays};
    sizes_.append(matrix);
    matrices.push_back(matrix);
  }
  matrices_ = upload_table(allocator, matrices);
}

std::vector<ParameterState> MuonOptimizer::states() const {
  std::vector<ParameterState> states = AdamWOptimizer::states();
  for (const ParameterId id : ids_)
    states.push_back({id, "m", moments().first.slice(store_.offset(id), store_.info(id).shape)});
  std::ranges::stable_sort(states, {}, &ParameterState::parameter);
  return states;
}

void MuonOptimizer::update_parameters(const Context& context, const Tensor& step_inputs,
                                      const Tensor& step_results) const {
  AdamWOptimizer::update_parameters(context, step_inputs, step_results);
  if (sizes_.count == 0) return;
  run(context, Muon{.parameters = store_.values(),
                    .gradients = store_.gradients(),
                    .momentum = moments().first,
                    .matrices = matrices_.bytes,
                    .sizes = sizes_,
                    .beta = options_.momentum,
                    .weight_decay = options_.weight_decay,
                    .rounds = store_.compute() == DType::bfloat16,
                    .step_inputs = step_inputs,
                    .results = step_results});
}

}  // namespace comera
