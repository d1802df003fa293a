#pragma once

#include <string>
#include <vector>

#include "checkpoints/checkpoint_file.h"
#include "recipes/recipe.h"

namespace comera {

// The recipe that a checkpoint's model was made with, overridden as in load_recipe(). It is what says how the
// model is built, its layers' ranks included ([tensorized.ranks]); the parameters' shapes are compared with
// it when they are loaded (checkpoints/model_state.h).
Recipe checkpoint_recipe(const CheckpointReader& reader, const std::vector<std::string>& overrides = {});

// Refuses a recipe whose encoder computes something else with the same parameters: another model.heads,
// model.norm, model.positions or model.rotary_theta. UsageError that names the checkpoint and the key. Error
// if adapters that are not merged would have another lte.lora_alpha.
void require_same_encoder(const Recipe& recipe, const CheckpointReader& reader);

// Whether a recipe's head may begin with what an imported encoder carries (checkpoints/model_state.h): its
// pooler, which was trained on the first token of both texts together.
bool takes_carried_head(const Recipe& recipe);

// Gives the recipe the ranks of the checkpoint's single layers, so that a model made of it can hold their
// weights: of those layers that are tensor trains with the same modes in both. UsageError if the recipe
// itself has other ranks for a layer in [tensorized.ranks]; those of a run that adapts them and is resumed
// may have shrunk since it was begun.
enum class RanksOf : std::uint8_t { begun_with, resumed };
void take_ranks(Recipe& recipe, const CheckpointReader& reader, RanksOf checkpoint = RanksOf::begun_with);

}  // namespace comera
