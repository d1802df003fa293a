#pragma once

#include <cstdint>
#include <optional>

#include "data/tokenizers/tokenizer.h"
#include "recipes/recipe.h"

namespace comera::cli {

// What a pretraining will take on this machine: the model's size, each phase's time and memory, measured on a
// few steps of random tokens, passes over the training data, and the size of checkpoints.
struct PlannedData {
  std::int64_t vocabulary = 0;
  const data::Tokenizer* tokenizer = nullptr;  // null: the data are not there yet
  std::optional<double> tokens = {};           // then: about as many will be
};

// Prints it to stdout, for a job whose processes share the micro-batches of a step. Gives the
// seconds that all phases take, where that can be said. UsageError for a recipe that cannot be trained with
// these data or on this machine.
std::optional<double> print_training_plan(const Recipe& recipe, const PlannedData& data, int processes);

}  // namespace comera::cli
