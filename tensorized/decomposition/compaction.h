#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/core/tensors/parameter_state.h"
#include "tensorized/decomposition/shapes.h"
#include "tensorized/ranked_layer.h"

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

// All parameters and their states (an optimizer's moments) on the host: of ranked layers the live slices
// only, and nothing of one that is removed but its bias. The numbers are the very same bits.
class CompactedParameters {
 public:
  // `live` are the live entries of these layers. Throws Error if a parameter that loses entries has a state
  // that is not entrywise: nobody knows what is left of it.
  CompactedParameters(const ParameterStore& from, const std::vector<ParameterState>& states,
                      const std::vector<RankedLayer>& layers, const std::vector<LiveEntries>& live);

  // Into the parameters and states of the compacted model, by name. Throws Error if it is not that model,
  // before anything is written.
  void write(const ParameterStore& to, const std::vector<ParameterState>& states) const;

 private:
  struct Kept {
    std::string name;  // "encoder.0.ffn.up.core.1", or "encoder.0.ffn.up.core.1's m"
    Shape shape;
    DType dtype = DType::float32;
    std::vector<std::byte> bytes;
  };
  using Tensors = std::vector<std::pair<std::string, Tensor>>;  // by such names
  static Tensors tensors_of(const ParameterStore& store, const std::vector<ParameterState>& states);

  std::vector<Kept> kept_;
};

}  // namespace comera
