#pragma once

#include <string>

#include "model/dlrm/config.h"
#include "model/model.h"
#include "recipes/recipe.h"

namespace comera {

// A table of every layer: its kind, modes and ranks, parameters and gates, and the totals by part, next to
// those of the dense baseline. Counted from the model's parameters.
std::string model_report(const Model& model);

// The same for a click model, without constructing it.
std::string model_report(const DlrmConfig& config);

// How a machine of this kind evaluates each kind of linear layer for a micro-batch of this many tokens: all
// ways with their costs.
std::string linears_report(const Model& model, std::int64_t tokens, const MachineModel& machine);

// The fused operations that the recipe's model does not use on such a GPU, and why: for each phase a heading,
// which phases that miss the same share, and a line for each operation, reason and range of layers.
std::string fusion_report(const Recipe& recipe, const Model& model, const MachineModel& gpu);

// "4 layers of 256, 4 heads, feed-forward 1024, post-norm, relative positions".
std::string architecture_text(const EncoderArchitecture& model);

// Elements of all parameters (without gates) of the same model with every layer dense, without allocating it.
std::int64_t dense_parameters(const EncoderConfig& config);

}  // namespace comera
