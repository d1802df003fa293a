#include "recipes/schema/old_names.h"

#include <algorithm>

namespace comera::recipe_detail {

std::span<const OldKey> old_keys() {
  // Before 0.2.0.
  static constexpr OldKey keys[] = {
      {"phase", "tokens_per_pack", "tokens_per_micro_batch"},
      {"phase", "sequences_per_pack", "sequences_per_micro_batch"},
      {"phase", "examples_per_pack", "examples_per_micro_batch"},
      {"phase", "packs_per_step", "micro_batches_per_step"},
      {"phase.learning_rate", "rest", "other"},
      {"dlrm", "numbers", "dense_features"},
  };
  return keys;
}

std::span<const OldValue> old_values() {
  // Before 0.2.0.
  static constexpr OldValue values[] = {
      {"phase.objective", "early", "regularize"},
      {"phase.objective", "late", "compress"},
      {"phase.adaptation.target_of", "late_start", "phase_start"},
      {"tensorized.lookup", "halves", "factors"},
      {"tensorized.plan", "halves", "factors"},
  };
  return values;
}

std::string_view name_now(std::string_view section, std::string_view name) {
  const auto same = [&](const OldKey& key) { return key.section == section && key.old_name == name; };
  const auto found = std::ranges::find_if(old_keys(), same);
  return found == old_keys().end() ? name : found->name;
}

}  // namespace comera::recipe_detail
