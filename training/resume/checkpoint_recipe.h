#pragma once

#include <string>
#include <vector>

#include "checkpoints/checkpoint_file.h"
#include "recipes/recipe.h"

namespace comera {

// The recipe of a checkpoint's model, with overrides as in load_recipe(). It defines how the model is built,
// including its layers' ranks ([tensorized.ranks]); the parameters' shapes are compared with it when they are
// loaded (checkpoints/model_state.h).
Recipe checkpoint_recipe(const CheckpointReader& reader, const std::vector<std::string>& overrides = {});

// Rejects a recipe whose encoder would compute something else with the same parameters: another model.heads,
// model.norm, model.positions, model.rotary_theta or model.relative_buckets. UsageError that names the
// checkpoint and the key. Error if unmerged adapters would get another lte.lora_alpha.
void require_same_encoder(const Recipe& recipe, const CheckpointReader& reader);

// Whether a recipe's head may be initialised from the head parameters that an imported encoder carries
// (checkpoints/model_state.h): a pooler trained on the first token of both texts together.
bool takes_carried_head(const Recipe& recipe);

// model.score_mean and score_std that a run was begun with, where the recipe leaves them open and the
// checkpoint is of a regression.
void take_score_scale(Recipe& recipe, const CheckpointReader& reader);

// Copies the ranks of the checkpoint's layers into the recipe, so that a model built from it can hold their
// weights. This affects layers that are tensor trains with the same modes in both. UsageError if the recipe
// gives other ranks for a layer in [tensorized.ranks]; in a resumed run that adapts ranks, they may have
// shrunk since the start.
enum class RanksOf : std::uint8_t { begun_with, resumed };
void take_ranks(Recipe& recipe, const CheckpointReader& reader, RanksOf checkpoint = RanksOf::begun_with);

}  // namespace comera
