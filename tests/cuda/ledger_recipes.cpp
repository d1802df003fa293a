#include "tests/cuda/ledger_recipes.h"

#include <algorithm>

#include "recipes/encoder_config.h"
#include "storage/small_file.h"

namespace comera::test {

Recipe LedgerRecipe::load(const std::vector<std::string>& overrides) const {
  const auto file = [](const std::string& of) { return COMERA_SOURCE_DIR "/recipes/" + of + ".toml"; };
  std::vector<std::string> all{"precision.compute='bf16'"};
  BaseRecipe model;
  if (!base.empty()) {
    model = {.toml = storage::read_small_file(file(base), 1 << 20, "a recipe"), .name = base};
    all.insert(all.end(), {"model.head='classification'", "model.classes=3"});
  }
  all.insert(all.end(), overrides.begin(), overrides.end());
  return load_recipe(file(name), all, model);
}

std::vector<LedgerRecipe> ledger_recipes() {
  const std::vector<std::int64_t> pretraining{16384}, classifying{5120, 32768};
  return {{"quickstart", "", pretraining},       {"glue_small", "", pretraining},
          {"codebert_small", "", pretraining},   {"codebert_base", "", pretraining},
          {"codebert_large", "", pretraining},   {"codebert_large_muon", "", pretraining},
          {"six_encoder_mnli", "", classifying}, {"six_encoder_pairs", "", classifying},
          {"glue", "glue_small", classifying},   {"function_pairs", "codebert_small", classifying}};
}

EncoderConfig config_of(const Recipe& recipe) {
  return encoder_config(recipe, recipe.model.vocabulary == 0 ? 8192 : recipe.model.vocabulary);
}

std::vector<std::int64_t> lengths_of(const Recipe& recipe) {
  std::vector<std::int64_t> lengths;
  for (const PhaseSection& phase : recipe.phases)
    if (std::ranges::find(lengths, phase.length) == lengths.end()) lengths.push_back(phase.length);
  return lengths;
}

}  // namespace comera::test
