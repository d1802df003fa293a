#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/core/tensors/parameter_state.h"
#include "tensorized/decomposition/shapes.h"
#include "tensorized/ranked_layer.h"

// Compaction removes pruned ranks from a model. A gate entry that is exactly 0 is pruned, together with its
// slices of both neighbouring cores. The compacted model computes the same and trains in the same way,
// because a pruned slice has no value, no gradient and no moments.
namespace comera {

// The live entries (gate != 0) of each bond of a layer, ascending.
struct LiveEntries {
  std::string layer;
  std::vector<std::vector<std::int64_t>> bonds;  // K - 1; all empty if one is: the layer is removed

  bool removed() const { return !bonds.empty() && bonds.front().empty(); }
};

// Reads the gates from the device. Throws Error if a bond has no live entries and its layer cannot be
// removed.
std::vector<LiveEntries> live_entries(const ParameterStore& store, const std::vector<RankedLayer>& layers);

// The ranks of the compacted model's layers: zeros for a layer that is now removed. Layers removed earlier
// are not listed.
LayerRanks ranks_of(const std::vector<LiveEntries>& live);

// All parameters and their states (an optimizer's moments) on the host: the live slices of ranked layers, and
// only the bias of a removed layer. Values are copied bit for bit.
class CompactedParameters {
 public:
  // `live` holds the live entries of these layers. Throws Error if a parameter that loses entries has a state
  // that is not entrywise, because such a state cannot be compacted.
  CompactedParameters(const ParameterStore& from, const std::vector<ParameterState>& states,
                      const std::vector<RankedLayer>& layers, const std::vector<LiveEntries>& live);

  // Copies into the parameters and states of the compacted model, by name. Throws Error before writing
  // anything if the model does not match.
  void write(const ParameterStore& to, const std::vector<ParameterState>& states) const;

 private:
  struct Kept {
    std::string name;  // "encoder.0.ffn.up.core.1", or "encoder.0.ffn.up.core.1's m"
    Shape shape;
    DType dtype = DType::float32;
    std::vector<std::byte> bytes;
  };
  using Tensors = std::vector<std::pair<std::string, Tensor>>;  // with such names
  static Tensors tensors_of(const ParameterStore& store, const std::vector<ParameterState>& states);

  std::vector<Kept> kept_;
};

}  // namespace comera
