#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoints/checkpoint_file.h"
#include "kernels/core/tensors/parameter_state.h"

namespace comera {

// "/model/<parameter>" with its role; cores with their modes and the ranks on both sides, gates with their
// rank.
void save_parameters(CheckpointWriter& writer, const ParameterStore& store);
// Error in one sentence if the checkpoint's parameters are not this model's: names, shapes or type. Reads no
// numbers.
void check_parameters(const CheckpointReader& reader, const ParameterStore& store);
// The same, and reads them. Error too if a number is not finite, as with everything that is loaded here.
void load_parameters(const CheckpointReader& reader, const ParameterStore& store);

// "/carried/<parameter>": a parameter of a head that the model does not have. One that is made later, for a
// new run, begins with it.
void save_carried(CheckpointWriter& writer, const std::string& parameter, const Tensor& values);
void copy_carried(const CheckpointReader& from, CheckpointWriter& to);

// How many parameters came from a checkpoint, and which are new.
struct InitialParameters {
  std::int64_t loaded = 0;
  std::vector<std::string> fresh;  // names: of the head only
};

// Weights for a new run from another's checkpoint: the encoder whole, and of the head what has the same name
// and shape; the rest of the head stays as it is. A dense model's weights become the frozen ones of a model
// with adapters (tensorized/linear/lte_linear.h), and those of a model with other adapters, if these are
// merged. Its own adapters then stay as they are: they add nothing at the start. Neither optimizer nor
// trainer state is read. take_carried: whether parameters of the head may also be carried ones. A model whose
// tensor trains have ranks of their own must be built with them first: take_ranks() in
// training/resume/checkpoint_recipe.h. Error in one sentence if the encoders differ.
InitialParameters load_initial_parameters(const CheckpointReader& reader, const ParameterStore& store,
                                          bool take_carried = true);

// Throws Error unless the adapters of [lte] that a checkpoint holds, if any, have been merged into the
// weights since they were last trained. `otherwise`: what would happen to "what its adapters have learnt
// since".
void require_merged_adapters(const CheckpointReader& reader, std::string_view otherwise);

// The tensors of the model and of its optimizer, by their paths, that hold numbers which are not finite.
// Loading refuses them. Reads all of them once.
std::vector<std::string> nonfinite_tensors(const CheckpointReader& reader);

// "/optimizer/<parameter>/<state>": what an optimizer keeps. Loading throws Error when the checkpoint has
// none, such as that of `comera compact --from-dense`, or lacks one of these; states of other names that it
// has are left alone.
void save_optimizer(CheckpointWriter& writer, const ParameterStore& store,
                    const std::vector<ParameterState>& states);
void load_optimizer(const CheckpointReader& reader, const ParameterStore& store,
                    const std::vector<ParameterState>& states);

}  // namespace comera
