#include "tensorized/compaction.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>

#include "kernels/core/check.h"

namespace comera {

std::vector<LiveEntries> live_entries(const ParameterStore& store, const std::vector<RankedLayer>& layers) {
  std::vector<LiveEntries> all;
  for (const RankedLayer& layer : layers) {
    LiveEntries& live = all.emplace_back(LiveEntries{.layer = layer.name, .bonds = {}});
    for (const ParameterId id : layer.gates) {
      const std::vector<double> gate = read_tensor(store.value(id), store.allocator());
      std::vector<std::int64_t>& bond = live.bonds.emplace_back();
      for (std::size_t i = 0; i < gate.size(); ++i)
        if (gate[i] != 0) bond.push_back(static_cast<std::int64_t>(i));
    }
    const auto empty = std::ranges::find_if(live.bonds, [](const auto& bond) { return bond.empty(); });
    if (empty == live.bonds.end()) continue;
    COMERA_CHECK(!layer.keeps_one, "{}: all gate entries of bond {} are 0, but this layer cannot be removed",
                 layer.name, empty - live.bonds.begin() + 1);
    for (auto& bond : live.bonds) bond.clear();
  }
  return all;
}

LayerRanks ranks_of(const std::vector<LiveEntries>& live) {
  LayerRanks ranks;
  for (const LiveEntries& layer : live)
    for (const auto& bond : layer.bonds) ranks[layer.layer].push_back(std::ssize(bond));
  return ranks;
}

namespace {

using Indices = std::vector<std::int64_t>;

// What is kept of a parameter: of a core's first and last axis, of a gate's only one.
struct Selection {
  bool gone = false;
  std::optional<Indices> first, last;  // without: all

  bool whole() const { return !gone && !first && !last; }
};

std::vector<Selection> selections(const ParameterStore& store, const std::vector<RankedLayer>& layers,
                                  const std::vector<LiveEntries>& live) {
  COMERA_CHECK(layers.size() == live.size(), "live entries of {} layers are given for {}", live.size(),
               layers.size());
  std::vector<Selection> all(store.size());
  for (std::size_t l = 0; l < layers.size(); ++l) {
    const RankedLayer& layer = layers[l];
    const auto& bonds = live[l].bonds;
    COMERA_CHECK(layer.name == live[l].layer && layer.gates.size() == bonds.size(),
                 "the live entries of {} with {} bonds are given for {} with {}", live[l].layer, bonds.size(),
                 layer.name, layer.gates.size());
    for (std::size_t k = 0; k < bonds.size(); ++k) {
      all[layer.gates[k]] = {.gone = live[l].removed(), .first = {}, .last = bonds[k]};
      all[layer.cores[k]].last = all[layer.cores[k + 1]].first = bonds[k];
    }
    for (const ParameterId id : layer.cores) all[id].gone = live[l].removed();
  }
  return all;
}

// (rows, middle, columns): a core's ranks on both sides; a gate is one row.
struct Slices {
  std::int64_t rows, middle, columns;

  explicit Slices(const Shape& shape)
      : rows(shape.rank() > 1 ? shape[0] : 1), middle(1), columns(shape[shape.rank() - 1]) {
    for (int axis = 1; axis + 1 < shape.rank(); ++axis) middle *= shape[axis];
  }
};

Indices everything(std::int64_t count) {
  Indices all(count);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

Shape kept_shape(const Shape& shape, const Selection& selection) {
  if (selection.whole()) return shape;
  const std::int64_t first = selection.first ? std::ssize(*selection.first) : shape[0];
  const std::int64_t last = selection.last ? std::ssize(*selection.last) : shape[-1];
  if (shape.rank() == 1) return {last};                             // a gate
  if (shape.rank() == 3) return {first, shape[1], last};            // a core of a linear
  if (shape.rank() == 4) return {first, shape[1], shape[2], last};  // of an embedding
  throw_error(fmt::format("{} is neither a gate nor a core", shape.text()));
}

// As bytes, so that nothing is rounded.
std::vector<std::byte> kept_part(const std::byte* from, std::size_t size, const Shape& shape,
                                 const Selection& selection) {
  if (selection.whole()) return {from, from + shape.elements() * size};
  const Slices slices(shape);
  const Indices rows = selection.first.value_or(everything(slices.rows));
  const Indices columns = selection.last.value_or(everything(slices.columns));
  std::vector<std::byte> part;
  part.reserve(rows.size() * slices.middle * columns.size() * size);
  for (const std::int64_t row : rows)
    for (std::int64_t m = 0; m < slices.middle; ++m)
      for (const std::int64_t column : columns) {
        const std::byte* element = from + ((row * slices.middle + m) * slices.columns + column) * size;
        part.insert(part.end(), element, element + size);
      }
  return part;
}

// The values, then the states: flat, and as long as each other.
std::vector<Tensor> flat_tensors(const ParameterStore& store, const std::vector<Tensor>& states) {
  std::vector<Tensor> flat{store.values()};
  for (const Tensor& state : states) {
    COMERA_CHECK(state.elements() == store.values().elements(),
                 "a state of {} elements is not laid out as the {} of the parameters", state.elements(),
                 store.values().elements());
    flat.push_back(state);
  }
  return flat;
}

}  // namespace

CompactedParameters::CompactedParameters(const ParameterStore& from, const std::vector<Tensor>& states,
                                         const std::vector<RankedLayer>& layers,
                                         const std::vector<LiveEntries>& live) {
  const std::vector<Selection> selected = selections(from, layers, live);
  for (ParameterId id = 0; id < from.size(); ++id)
    if (!selected[id].gone)
      kept_.push_back({from.info(id).name, kept_shape(from.info(id).shape, selected[id]), {}});
  for (const Tensor& flat : flat_tensors(from, states)) {
    types_.push_back(flat.dtype());
    HostCopy copy(from.allocator(), flat);
    const auto* host = static_cast<const std::byte*>(copy.read().tensor().raw());
    const std::size_t size = size_of(flat.dtype());
    auto kept = kept_.begin();
    for (ParameterId id = 0; id < from.size(); ++id)
      if (!selected[id].gone)
        (kept++)->parts.push_back(
            kept_part(host + from.offset(id) * size, size, from.info(id).shape, selected[id]));
  }
}

void CompactedParameters::write(const ParameterStore& to, const std::vector<Tensor>& states) const {
  const std::vector<Tensor> flat = flat_tensors(to, states);
  COMERA_CHECK(flat.size() == types_.size(), "{} states are to be written, but {} were kept", states.size(),
               types_.size() - 1);
  for (std::size_t i = 0; i < flat.size(); ++i)
    COMERA_CHECK(flat[i].dtype() == types_[i], "{} of type {} cannot be written as {}",
                 i == 0 ? "parameters" : "a state", name_of(types_[i]), name_of(flat[i].dtype()));
  std::vector<ParameterId> ids;
  for (const Kept& kept : kept_) {
    const std::optional<ParameterId> id = to.find(kept.name);
    COMERA_CHECK(id, "the compacted model has no parameter '{}'", kept.name);
    COMERA_CHECK(to.info(*id).shape == kept.shape, "'{}' is {} in the compacted model, but {} of it is live",
                 kept.name, to.info(*id).shape.text(), kept.shape.text());
    ids.push_back(*id);
  }
  COMERA_CHECK(std::ssize(ids) == to.size(), "the compacted model has {} parameters, but {} were kept",
               to.size(), ids.size());
  for (std::size_t i = 0; i < flat.size(); ++i) {
    HostCopy copy(to.allocator(), flat[i]);
    auto* host = static_cast<std::byte*>(copy.read().tensor().raw());  // the gaps stay as they are
    for (std::size_t k = 0; k < kept_.size(); ++k) {
      const std::vector<std::byte>& part = kept_[k].parts[i];
      std::memcpy(host + to.offset(ids[k]) * size_of(flat[i].dtype()), part.data(), part.size());
    }
    copy.write();
  }
}

}  // namespace comera
