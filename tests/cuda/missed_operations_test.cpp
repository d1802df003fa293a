// Which fused operations the recipes miss on a GPU. A recipe that misses another one is slower than it looks:
// either the kernels learn it, or the list says why not.

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/cuda_backend.h"
#include "measurements/stepper.h"
#include "model/model.h"
#include "tests/cuda/step_ledger.h"

namespace comera::test {
namespace {

constexpr const char* attention = "attention between the factors";

// The reason is what the model says, up to its numbers.
struct Allowed {
  const char *recipe, *operation, *reason;
};
const std::vector<Allowed> allowed = {
    // Ranks of 100, which the paper's factor of compression asks for, are larger than a head of 64: forming
    // Q, K
    // and V takes less.
    {"codebert_large", attention, "it takes "},
    {"codebert_large_muon", attention, "it takes "},
};

// The sizes of the ledger, and those of the recipe's phases: tokens and length.
std::set<std::pair<std::int64_t, std::int64_t>> sizes_of(const LedgerRecipe& one, const Recipe& recipe) {
  std::set<std::pair<std::int64_t, std::int64_t>> sizes;
  for (const PhaseSection& phase : recipe.phases) {
    sizes.emplace(phase.tokens_per_micro_batch, phase.length);
    for (const std::int64_t tokens : one.tokens) sizes.emplace(tokens, phase.length);
  }
  return sizes;
}

TEST(MissedOperations, AreThoseThatAreAllowed) {
  std::vector<bool> met(allowed.size());
  for (const LedgerRecipe& one : ledger_recipes()) {
    const Recipe recipe = one.load();
    const Model model(config_of(recipe), host_allocator(), false);
    for (const auto& [tokens, length] : sizes_of(one, recipe))
      for (const MissedOperation& missed : model.missed_operations(
               cuda_emulated::backend().machine(), capacity_of(step_of(recipe, tokens, length)))) {
        const auto found = std::ranges::find_if(allowed, [&](const Allowed& entry) {
          return entry.recipe == one.name && entry.operation == missed.operation &&
                 missed.reason.starts_with(entry.reason);
        });
        if (found != allowed.end())
          met[found - allowed.begin()] = true;
        else
          ADD_FAILURE() << one.name << " with " << tokens << " tokens in sequences of " << length
                        << ", layer " << missed.layer << ", " << missed.operation << ": " << missed.reason;
      }
  }
  for (std::size_t i = 0; i < allowed.size(); ++i)
    EXPECT_TRUE(met[i]) << allowed[i].recipe << " no longer misses: " << allowed[i].operation;
}

}  // namespace
}  // namespace comera::test
