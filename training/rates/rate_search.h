#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>

#include "training/rates/rate_report.h"

namespace comera {

struct RateSearchOptions {
  double minutes = 5;      // what all trials together should take, about
  std::int64_t steps = 0;  // of a trial; 0: as `minutes` allow
  std::function<bool()> stop_requested = {};
  std::FILE* output = stderr;  // of progress
};

// Looks for the learning rates of a recipe's first phase by short trainings (a warm-up over a tenth of the
// steps, then a linear fall to 0), all from the same weights and over the same batches, so that they differ
// by their rates alone: first the rates of all kinds of parameters together, from a sixteenth to four times
// what the recipe says and further where the best lies at the end, then each kind (cores, embedding where it
// has a rate of its own, gates, rest) by itself in factors of two. Nothing is written. Ranks are not adapted.
// UsageError if the recipe cannot be trained, or `minutes` are too few for trials of 50 steps; Error if all
// trials diverge.
RateReport find_rates(const Recipe& recipe, const RateSearchOptions& options);

}  // namespace comera
