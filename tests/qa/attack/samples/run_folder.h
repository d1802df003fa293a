#pragma once

#include <cstdint>
#include <string>

#include "tests/qa/attack/child.h"

// What a run's folder holds, and whether it is what it must be.
namespace comera::attack {

// The newest complete checkpoint; -1: none.
std::int64_t newest_step(const fs::path& run);
fs::path newest_checkpoint(const fs::path& run);  // "" if there is none
// Of the last whole line of metrics; -1: none.
std::int64_t last_metrics_step(const fs::path& run);

// What is wrong with a folder after its process was killed: a checkpoint under its own name that is not
// whole.
// "" if nothing.
std::string damage_in(const fs::path& run);

// What differs in the metrics of two runs, beside times; "" if nothing.
std::string difference_in_metrics(const fs::path& run, const fs::path& expected);

struct Compared {
  bool metrics = true;  // false if lines were lost on purpose
};
// What differs between a finished run and the same one that nothing happened to: the bits of its last
// checkpoint and of its best model, its recipe and tokenizer, what metrics.jsonl says beside times; or what
// is left lying there. "" if nothing.
std::string difference(const fs::path& run, const fs::path& expected, const Compared& compared = {});

}  // namespace comera::attack
