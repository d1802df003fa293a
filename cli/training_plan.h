#pragma once

#include <cstdint>
#include <optional>

#include "data/tokenizers/tokenizer.h"
#include "recipes/recipe.h"

namespace comera::cli {

// The cost of a run on this machine: the model's size, each phase's time and memory, measured on
// a few steps of random tokens, epochs over the training data, and the size of checkpoints.
struct PlannedData {
  std::int64_t vocabulary = 0;
  const data::Tokenizer* tokenizer = nullptr;  // null: the data do not exist yet
  std::optional<double> tokens = {};           // then: their approximate number
  bool finetune = false;                       // the recipe's [task], which is resolved
};

// Prints it to stdout, for a job whose processes share the micro-batches of a step. Returns the seconds of
// all phases, if known. UsageError for a recipe that cannot be trained with these data or on this machine.
std::optional<double> print_training_plan(const Recipe& recipe, const PlannedData& data, int processes);

}  // namespace comera::cli
