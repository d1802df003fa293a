#include "optim/optimizer.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "kernels/ops/layout.h"
#include "kernels/ops/optimizer.h"

namespace comera {

static_assert(static_cast<int>(ParameterRole::core) == static_cast<int>(RateGroup::core) &&
              static_cast<int>(ParameterRole::gate) == static_cast<int>(RateGroup::gate) &&
              static_cast<int>(ParameterRole::dense) == static_cast<int>(RateGroup::dense) &&
              static_cast<int>(RateGroup::embedding) + 1 == max_parameter_groups);

const char* name_of(OptimizerKind kind) { return kind == OptimizerKind::muon ? "muon" : "adamw"; }

namespace {

bool is_of_muon(const ParameterInfo& parameter, const OptimizerOptions& options) {
  return options.kind == OptimizerKind::muon && parameter.matrix_rows > 0;
}

struct HostTables {
  std::vector<ParameterSegment> all, adamw;
  std::vector<MuonMatrix> matrices;
  MuonSizes sizes;
};

HostTables tables_of(const ParameterStore& store, const OptimizerOptions& options) {
  HostTables tables;
  for (const ParameterId id : store.layout()) {
    const ParameterInfo& info = store.info(id);
    const auto group = static_cast<std::int32_t>(Optimizer::group_of(info, options));
    const bool decays = info.decays && (info.role == ParameterRole::dense || options.decay_cores);
    const ParameterSegment segment{store.offset(id), info.shape.elements(), group, decays ? 1 : 0};
    tables.all.push_back(segment);
    if (!is_of_muon(info, options)) {
      tables.adamw.push_back(segment);
    } else if (segment.count > 0) {
      MuonMatrix matrix{.offset = segment.offset,
                        .rows = static_cast<std::int32_t>(info.matrix_rows),
                        .columns = static_cast<std::int32_t>(segment.count / info.matrix_rows),
                        .group = group,
                        .decays = segment.decays};
      tables.sizes.append(matrix);
      tables.matrices.push_back(matrix);
    }
  }
  return tables;
}

}  // namespace

Optimizer::Optimizer(ParameterStore& store, const OptimizerOptions& options, Allocator& allocator)
    : store_(store), options_(options) {
  const std::int64_t count = store.values().elements();
  const std::size_t bytes = store.values().bytes();
  moment1_memory_ = Buffer(allocator, bytes, MemoryKind::optimizer);
  moment2_memory_ = Buffer(allocator, bytes, MemoryKind::optimizer);
  moment1_ = moment1_memory_.tensor({count}, store.dtype());
  moment2_ = moment2_memory_.tensor({count}, store.dtype());
  const HostTables host = tables_of(store, options);
  const auto bytes_of = [](const auto& table) {
    return static_cast<std::int64_t>(std::as_bytes(std::span(table)).size());
  };
  const std::int64_t table_bytes = bytes_of(host.all) + bytes_of(host.adamw) + bytes_of(host.matrices);
  table_memory_ = Buffer(allocator, table_bytes, MemoryKind::optimizer);
  const Tensor tables = table_memory_.tensor({table_bytes}, DType::uint8);
  std::int64_t at = 0;
  const auto upload = [&](const auto& table) {
    const Tensor part = tables.slice(at, {bytes_of(table)});
    allocator.upload(part.raw(), table.data(), part.bytes(), allocator.stream());
    at += bytes_of(table);
    return part;
  };
  segments_ = upload(host.all), adamw_segments_ = upload(host.adamw), matrices_ = upload(host.matrices);
  allocator.synchronize(allocator.stream());
  adamw_count_ = static_cast<std::int64_t>(host.adamw.size());
  for (const ParameterSegment& segment : host.adamw) adamw_elements_ += segment.count;
  matrix_sizes_ = host.sizes;
  norm_memory_ = Buffer(allocator, host.all.size() * sizeof(double), MemoryKind::optimizer);
  norms_ = norm_memory_.tensor({static_cast<std::int64_t>(host.all.size())}, DType::float64);
}

RateGroup Optimizer::group_of(const ParameterInfo& parameter, const OptimizerOptions& options) {
  if (parameter.embedding) return RateGroup::embedding;
  return is_of_muon(parameter, options) ? RateGroup::core : static_cast<RateGroup>(parameter.role);
}

void Optimizer::measure(const Context& context, const Tensor& step_inputs, const Tensor& step_results) const {
  run(context, GradientNorm{.gradients = store_.gradients(),
                            .segments = segments_,
                            .norms = norms_,
                            .step_inputs = step_inputs,
                            .results = step_results});
}

void Optimizer::update(const Context& context, const Tensor& step_inputs, const Tensor& step_results) const {
  run(context, AdamW{.parameters = store_.values(),
                     .gradients = store_.gradients(),
                     .moment1 = moment1_,
                     .moment2 = moment2_,
                     .segments = adamw_segments_,
                     .segment_count = adamw_count_,
                     .elements = adamw_elements_,
                     .beta1 = options_.beta1,
                     .beta2 = options_.beta2,
                     .eps = options_.eps,
                     .weight_decay = options_.weight_decay,
                     .step_inputs = step_inputs,
                     .results = step_results});
  if (matrix_sizes_.count > 0)
    run(context, Muon{.parameters = store_.values(),
                      .gradients = store_.gradients(),
                      .momentum = moment1_,
                      .matrices = matrices_,
                      .sizes = matrix_sizes_,
                      .beta = options_.momentum,
                      .weight_decay = options_.weight_decay,
                      .step_inputs = step_inputs,
                      .results = step_results});
  run(context, Fill{.x = store_.gradients(), .value = 0});
}

void Optimizer::prepare(StepInputs& inputs, std::int64_t update) const {
  inputs.bias_correction1 = 1 - std::pow(options_.beta1, static_cast<double>(update + 1));
  inputs.bias_correction2 = 1 - std::pow(options_.beta2, static_cast<double>(update + 1));
}

const std::string& Optimizer::first_nonfinite(const StepResults& results) const {
  const std::vector<double> norms = read_tensor(norms_, store_.allocator());
  ParameterId last = -1;  // in the order of a forward pass
  for (std::size_t segment = 0; segment < norms.size(); ++segment)
    if (!std::isfinite(norms[segment])) last = std::max(last, store_.layout()[segment]);
  return store_.info(last < 0 ? store_.layout()[results.first_nonfinite] : last).name;
}

}  // namespace comera
