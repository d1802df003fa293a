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
// Error in one sentence if the checkpoint's parameters differ from this model's in names, shapes or type.
// Reads no values.
void check_parameters(const CheckpointReader& reader, const ParameterStore& store);
// The same, and reads them. As with everything loaded here, Error if a value is not finite.
void load_parameters(const CheckpointReader& reader, const ParameterStore& store);

inline constexpr std::string_view carried_at = "/carried/";
// "/carried/<parameter>": a parameter of a head that the model does not have, used to initialise that head in
// a later run.
void save_carried(CheckpointWriter& writer, const std::string& parameter, const Tensor& values);
struct CarriedParameter {
  std::string name;
  Shape shape;
  std::vector<double> values;
};
std::vector<CarriedParameter> carried_parameters(const CheckpointReader& reader);
void copy_carried(const CheckpointReader& from, CheckpointWriter& to);

// How many parameters came from a checkpoint, and which are new.
struct InitialParameters {
  std::int64_t loaded = 0;
  std::vector<std::string> fresh;  // names, only of head parameters
};

// Initial weights for a new run from another run's checkpoint: the whole encoder, and those head parameters
// that have the same name and shape; the rest of the head is unchanged. For a model with adapters
// (tensorized/linear/lte_linear.h), the weights of a dense model become its frozen weights; so do those of a
// model with other adapters, if these are merged. The new adapters are unchanged: they add nothing at the
// start. Reads neither optimizer nor trainer state. take_carried: whether head parameters may also be carried
// ones. A model whose tensor trains have their own ranks must be built with them first: take_ranks() in
// training/resume/checkpoint_recipe.h. Error in one sentence if the encoders differ.
InitialParameters load_initial_parameters(const CheckpointReader& reader, const ParameterStore& store,
                                          bool take_carried = true);

// Throws Error if a checkpoint holds adapters of [lte] that have been trained since they were last merged
// into the weights. `otherwise`: what would happen to "what its adapters have learnt since".
void require_merged_adapters(const CheckpointReader& reader, std::string_view otherwise);

// The paths of the model's and optimizer's tensors that contain non-finite values, which loading rejects.
// Reads all of them once.
std::vector<std::string> nonfinite_tensors(const CheckpointReader& reader);

// "/optimizer/<parameter>/<state>": an optimizer's state. Loading throws Error if the checkpoint has none,
// such as that of `comera compact --from-dense`, or lacks one of these; further states in the file are
// ignored.
void save_optimizer(CheckpointWriter& writer, const ParameterStore& store,
                    const std::vector<ParameterState>& states);
void load_optimizer(const CheckpointReader& reader, const ParameterStore& store,
                    const std::vector<ParameterState>& states);

}  // namespace comera
