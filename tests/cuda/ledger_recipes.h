#pragma once

#include <string>
#include <vector>

#include "model/config.h"
#include "recipes/recipe.h"

namespace comera::test {

// An encoder's recipe of recipes/; one for fine-tuning gets the model of the recipe `base`.
struct LedgerRecipe {
  std::string name, base = {};
  std::vector<std::int64_t> tokens;  // of the micro-batches that are counted

  // In bfloat16.
  Recipe load(const std::vector<std::string>& overrides = {}) const;
};

// All but those of click models, which measurements of steps do not take.
std::vector<LedgerRecipe> ledger_recipes();

EncoderConfig config_of(const Recipe& recipe);
// The different lengths of its phases.
std::vector<std::int64_t> lengths_of(const Recipe& recipe);

}  // namespace comera::test
