#include "tensorized/decomposition/compaction.h"

#include <algorithm>
#include <cstring>
#include <map>
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

// The kept part of a parameter: indices of a core's first and last axis, of a gate's only one.
struct Selection {
  bool gone = false;
  std::optional<Indices> first, last;  // absent: all

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
      all[layer.gates[k]].gone = live[l].removed();
      // A bond without pruned entries leaves its neighbours unchanged.
      if (std::ssize(bonds[k]) == store.info(layer.gates[k]).shape.elements()) continue;
      all[layer.gates[k]].last = bonds[k];
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
      : rows(shape.dims() > 1 ? shape[0] : 1), middle(1), columns(shape[shape.dims() - 1]) {
    for (int axis = 1; axis + 1 < shape.dims(); ++axis) middle *= shape[axis];
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
  if (shape.dims() == 1) return {last};                             // a gate
  if (shape.dims() == 3) return {first, shape[1], last};            // a core of a linear
  if (shape.dims() == 4) return {first, shape[1], shape[2], last};  // of an embedding
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

}  // namespace

CompactedParameters::Tensors CompactedParameters::tensors_of(const ParameterStore& store,
                                                             const std::vector<ParameterState>& states) {
  Tensors tensors;
  for (ParameterId id = 0; id < store.size(); ++id)
    tensors.emplace_back(store.info(id).name, store.value(id));
  for (const ParameterState& state : states) {
    COMERA_CHECK(state.parameter >= 0 && state.parameter < store.size(),
                 "a state '{}' belongs to no parameter of the model: it is another model's", state.name);
    COMERA_CHECK(!state.entrywise || state.values.shape() == store.info(state.parameter).shape,
                 "state '{}' of {} is {}, but its parameter is {}", state.name,
                 store.info(state.parameter).name, state.values.shape().text(),
                 store.info(state.parameter).shape.text());
    tensors.emplace_back(fmt::format("{}'s {}", store.info(state.parameter).name, state.name), state.values);
  }
  return tensors;
}

CompactedParameters::CompactedParameters(const ParameterStore& from,
                                         const std::vector<ParameterState>& states,
                                         const std::vector<RankedLayer>& layers,
                                         const std::vector<LiveEntries>& live) {
  const std::vector<Selection> selected = selections(from, layers, live);
  const Tensors tensors = tensors_of(from, states);
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const auto& [name, tensor] = tensors[t];
    const std::size_t parameters = from.size();
    const ParameterState* state = t < parameters ? nullptr : &states[t - parameters];
    const Selection& selection = selected[state != nullptr ? state->parameter : static_cast<ParameterId>(t)];
    if (selection.gone) continue;
    COMERA_CHECK(selection.whole() || state == nullptr || state->entrywise,
                 "{} has not one value per entry, so it cannot be pruned like its parameter", name);
    HostCopy copy(from.allocator(), tensor);
    const auto* host = static_cast<const std::byte*>(copy.read().tensor().raw());
    kept_.push_back({name, kept_shape(tensor.shape(), selection), tensor.dtype(),
                     kept_part(host, size_of(tensor.dtype()), tensor.shape(), selection)});
  }
}

void CompactedParameters::write(const ParameterStore& to, const std::vector<ParameterState>& states) const {
  std::map<std::string, Tensor> tensors;
  for (const auto& [name, tensor] : tensors_of(to, states)) tensors.emplace(name, tensor);
  for (const Kept& kept : kept_) {
    const auto found = tensors.find(kept.name);
    COMERA_CHECK(found != tensors.end(), "the compacted model has no '{}'", kept.name);
    const Tensor& tensor = found->second;
    COMERA_CHECK(tensor.shape() == kept.shape, "'{}' is {} in the compacted model, but {} of it is live",
                 kept.name, tensor.shape().text(), kept.shape.text());
    COMERA_CHECK(tensor.dtype() == kept.dtype, "'{}' of type {} cannot be written as {}", kept.name,
                 name_of(kept.dtype), name_of(tensor.dtype()));
  }
  COMERA_CHECK(kept_.size() == tensors.size(),
               "the compacted model has {} parameters and states, but {} were kept", tensors.size(),
               kept_.size());
  for (const Kept& kept : kept_) {
    HostCopy copy(to.allocator(), tensors.at(kept.name));
    std::memcpy(copy.tensor().raw(), kept.bytes.data(), kept.bytes.size());
    copy.write();
  }
}

}  // namespace comera
