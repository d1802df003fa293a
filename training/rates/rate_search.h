#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>

#include "training/rates/rate_report.h"

namespace comera {

struct RateSearchOptions {
  double minutes = 5;      // approximate time of all trials together
  bool finetune = false;   // the recipe's [task] instead of masked language modelling
  std::int64_t steps = 0;  // of a trial; 0: as many as `minutes` allow
  std::function<bool()> stop_requested = {};
  std::FILE* output = stderr;  // for progress
};

// Searches the learning rates of a recipe's first phase with short training runs (a warm-up over a tenth of
// the steps, then a linear fall to 0). All start from the same weights and use the same batches, so that only
// their rates differ. First it varies the rates of all kinds of parameters together, from a sixteenth to four
// times the recipe's rates, and further if the best lies at an end. Then it varies each kind (cores,
// embedding if it has a separate rate, gates, other) separately in factors of two. Nothing is written. Ranks
// are not adapted. UsageError if the recipe cannot be trained, or `minutes` are too few for trials of 50
// steps; Error if all trials diverge.
RateReport find_rates(const Recipe& recipe, const RateSearchOptions& options);

}  // namespace comera
