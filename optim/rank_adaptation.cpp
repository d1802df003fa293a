#include "optim/rank_adaptation.h"

#include <algorithm>
#include <cstring>
#include <span>

namespace comera {

RankUnits measure_rank_units(const ParameterStore& store, const std::vector<RankedLayer>& layers) {
  RankUnits units;
  for (const RankedLayer& layer : layers)
    for (const ParameterId core : layer.cores)
      for (const double entry : read_tensor(store.value(core), store.allocator())) {
        units.size += 1;
        units.norm += entry * entry;
      }
  return units;
}

namespace {

struct HostTables {
  std::vector<RankLayer> layers;
  std::vector<RankCore> cores;
  std::vector<RankBond> bonds;
  std::int64_t entries = 0;
};

HostTables tables_of(const ParameterStore& store, const std::vector<RankedLayer>& ranked) {
  HostTables tables;
  for (const RankedLayer& from : ranked) {
    COMERA_CHECK(from.cores.size() == from.gates.size() + 1, "{} has {} cores and {} gates", from.name,
                 from.cores.size(), from.gates.size());
    const auto index = static_cast<std::int32_t>(tables.layers.size());
    COMERA_CHECK(from.needs < 0 || (from.needs > index && from.needs < static_cast<int>(ranked.size())),
                 "{} needs layer {} of {}, which does not come after it", from.name, from.needs,
                 ranked.size());
    tables.layers.push_back({.first_core = static_cast<std::int32_t>(tables.cores.size()),
                             .first_bond = static_cast<std::int32_t>(tables.bonds.size()),
                             .bonds = static_cast<std::int32_t>(from.gates.size()),
                             .keeps_one = from.keeps_one ? 1 : 0,
                             .needs = from.needs});
    for (std::size_t k = 0; k < from.cores.size(); ++k) {
      const Shape& shape = store.info(from.cores[k]).shape;
      if (k < from.gates.size()) {
        tables.bonds.push_back({.offset = store.offset(from.gates[k]),
                                .count = static_cast<std::int32_t>(shape[-1]),
                                .first_entry = static_cast<std::int32_t>(tables.entries),
                                .core = static_cast<std::int32_t>(tables.cores.size())});
        tables.entries += shape[-1];
      }
      tables.cores.push_back({.offset = store.offset(from.cores[k]),
                              .left = shape[0],
                              .modes = shape.elements() / (shape[0] * shape[-1]),
                              .right = shape[-1]});
    }
  }
  return tables;
}

}  // namespace

GateImportance::GateImportance(const ParameterStore& store, const std::vector<RankedLayer>& layers)
    : store_(store) {
  std::int64_t entries = 0;
  for (const RankedLayer& layer : layers)
    for (const ParameterId gate : layer.gates) {
      gates_.push_back(gate);
      entries += store.info(gate).shape.elements();
    }
  Allocator& allocator = store.allocator();
  memory_ =
      Buffer(allocator, static_cast<std::size_t>(entries) * size_of(store.dtype()), MemoryKind::optimizer);
  values_ = memory_.tensor({entries}, store.dtype());
  const std::vector<std::byte> zeros(values_.bytes());
  allocator.upload(values_.raw(), zeros.data(), zeros.size(), allocator.stream());
  allocator.synchronize(allocator.stream());
}

std::vector<ParameterState> GateImportance::states() const {
  std::vector<ParameterState> states;
  std::int64_t at = 0;
  for (const ParameterId gate : gates_) {
    const Shape& shape = store_.info(gate).shape;
    states.push_back(
        {.parameter = gate, .name = "importance", .values = values_.slice(at, shape), .optional = true});
    at += shape.elements();
  }
  return states;
}

RankAdaptation::RankAdaptation(const ParameterStore& store, const std::vector<RankedLayer>& layers,
                               const RankUnits& units, const RankStageOptions& options,
                               const GateImportance& importance)
    : store_(store), options_(options), importance_(importance.values()) {
  const HostTables host = tables_of(store, layers);
  std::int64_t elements = 0;
  for (const RankCore& core : host.cores) elements += core.elements();
  COMERA_CHECK(elements == store.count(ParameterRole::core),
               "ranks are adapted in {} of {} tensor-train parameters; an embedding with a single core has "
               "no ranks: give it at least two row modes",
               elements, store.count(ParameterRole::core));
  Allocator& allocator = store.allocator();
  const auto bytes_of = [](const auto& table) { return std::as_bytes(std::span(table)); };
  const std::size_t bytes =
      bytes_of(host.layers).size() + bytes_of(host.cores).size() + bytes_of(host.bonds).size();
  table_memory_ = Buffer(allocator, bytes, MemoryKind::optimizer);
  const Tensor all = table_memory_.tensor({static_cast<std::int64_t>(bytes)}, DType::uint8);
  std::int64_t at = 0;
  // Those with eight-byte members first.
  const auto upload = [&](const auto& table) {
    const auto count = static_cast<std::int64_t>(bytes_of(table).size());
    const Tensor part = all.slice(at, {count});
    allocator.upload(part.raw(), bytes_of(table).data(), part.bytes(), allocator.stream());
    at += count;
    return part;
  };
  tables_.cores = upload(host.cores);
  tables_.bonds = upload(host.bonds);
  tables_.layers = upload(host.layers);
  allocator.synchronize(allocator.stream());
  tables_.layer_count = static_cast<std::int64_t>(host.layers.size());
  tables_.core_count = static_cast<std::int64_t>(host.cores.size());
  tables_.bond_count = static_cast<std::int64_t>(host.bonds.size());
  tables_.entries = host.entries;
  tables_.initial_size = units.size;
  tables_.initial_norm = units.norm;
  state_memory_ = Buffer(allocator, sizeof(RankState), MemoryKind::optimizer);
  state_ = state_memory_.tensor({rank_state_numbers}, DType::float64);
  set_state({});
  for (const RankCore& core : host.cores) cores_end_ = std::max(cores_end_, core.offset + core.elements());
}

void RankAdaptation::descend(const Context& context, const Tensor& step_inputs,
                             const Tensor& step_results) const {
  run(context, RankObjective{.tables = tables_,
                             .options = options_.objective,
                             .parameters = store_.values(),
                             .gradients = store_.gradients(),
                             .cores_end = cores_end_,
                             .step_inputs = step_inputs,
                             .results = step_results,
                             .importance = importance_,
                             .state = state_});
}

void RankAdaptation::prune(const Context& context, const Tensor& moment1, const Tensor& moment2,
                           const Tensor& step_inputs, const Tensor& step_results) const {
  const RankObjectiveOptions& objective = options_.objective;
  run(context, PruneRanks{.tables = tables_,
                          .threshold = options_.threshold,
                          .to_target = objective.stage == RankStage::compress && objective.hold,
                          .order = objective.order,
                          .importance = importance_,
                          .parameters = store_.values(),
                          .moment1 = moment1,
                          .moment2 = moment2,
                          .step_inputs = step_inputs,
                          .results = step_results,
                          .state = state_});
}

RankState RankAdaptation::state() const {
  RankState state;
  store_.allocator().download(&state, state_.raw(), sizeof state, store_.allocator().stream());
  store_.allocator().synchronize(store_.allocator().stream());
  return state;
}

void RankAdaptation::set_state(const RankState& state) const {
  store_.allocator().upload(state_.raw(), &state, sizeof state, store_.allocator().stream());
  store_.allocator().synchronize(store_.allocator().stream());
}

}  // namespace comera
