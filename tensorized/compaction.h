#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/core/parameter.h"
#include "tensorized/ranked_layer.h"
#include "tensorized/shapes.h"

// Compaction: what rank adaptation has killed is taken out of a model. An entry of a gate that is exactly 0
// is dead, with its slices of both neighbouring cores. The model of the remaining slices computes the same,
// and trains on the same: a dead slice has neither value nor gradient nor moments.
namespace comera {

// The live entries (gate != 0) of each bond of a layer, ascending.
struct LiveEntries {
  std::string layer;
  std::vector<std::vector<std::int64_t>> bonds;  // K - 1; all empty if one is: the layer is removed

  bool removed() const { return !bonds.empty() && bonds.front().empty(); }
};

// Reads the gates from the device. Throws Error if a layer that cannot be removed has a bond without live
// entries.
std::vector<LiveEntries> live_entries(const ParameterStore& store, const std::vector<RankedLayer>& layers);

// The ranks of the compacted model's layers: zeros for one that is removed. A layer that was removed before
// is not among them.
LayerRanks ranks_of(const std::vector<LiveEntries>& live);

// All parameters, and flat states laid out as they are (an optimizer's moments), on the host: of ranked
// layers the live slices only, and nothing of one that is removed but its bias. The numbers are the very same
// bits.
class CompactedParameters {
 public:
  // `live` are the live entries of these layers.
  CompactedParameters(const ParameterStore& from, const std::vector<Tensor>& states,
                      const std::vector<RankedLayer>& layers, const std::vector<LiveEntries>& live);

  // Into the parameters and states of the compacted model, by name. Throws Error if it is not that model,
  // before anything is written.
  void write(const ParameterStore& to, const std::vector<Tensor>& states) const;

 private:
  struct Kept {
    std::string name;
    Shape shape;
    std::vector<std::vector<std::byte>> parts;  // of the values, then of each state
  };

  std::vector<DType> types_;  // of the values, then of each state
  std::vector<Kept> kept_;
};

}  // namespace comera
