#pragma once

#include <cstdint>
#include <string>

#include "tests/attack/child.h"

// Checks of a run's folder.
namespace comera::attack {

// The newest complete checkpoint; -1: none.
std::int64_t newest_step(const fs::path& run);
fs::path newest_checkpoint(const fs::path& run);  // "" if there is none
// Of the last whole line of metrics; -1: none.
std::int64_t last_metrics_step(const fs::path& run);

// Damage in a folder after its process was killed: an incomplete checkpoint under its final name. "" if there
// is none.
std::string damage_in(const fs::path& run);

// The difference between two runs' metrics, except times; "" if there is none.
std::string difference_in_metrics(const fs::path& run, const fs::path& expected);

struct Compared {
  bool metrics = true;  // false if lines were lost on purpose
};
// The difference between a finished run and an undisturbed one: the bits of its last checkpoint and of its
// best model, its recipe and tokenizer, metrics.jsonl except times; or leftovers. "" if there is none.
std::string difference(const fs::path& run, const fs::path& expected, const Compared& compared = {});

}  // namespace comera::attack
