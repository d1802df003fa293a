#pragma once

#include <string>
#include <vector>

namespace comera::test {

// For the fixture's recipe: adapters. Steps 3, 6 and 9 end with merges, as the phases' last steps 7 and 12
// do.
inline std::vector<std::string> with_adapters(const std::vector<std::string>& more = {}) {
  std::vector<std::string> all = {
      "tensorized.enabled=false",          "lte={lora_r=3, lora_alpha=12, num_heads=4, merge_steps=3}",
      "phase.0.tokens_per_micro_batch=64", "phase.1.tokens_per_micro_batch=64",
      "run.evaluation_interval=6",         "run.checkpoint_interval=1",
      "run.keep_checkpoints=20",           "phase.0.learning_rate=0.02",
      "phase.1.learning_rate=0.02"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace comera::test
