#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "recipes/recipe.h"
#include "reports/plot.h"

namespace comera {

// One short training from the same start.
struct RateTrial {
  LearningRates rates;
  double loss = 0;         // over its last fifth, nats per target; infinite if it was not finite
  std::int64_t steps = 0;  // fewer than of others if it was given up, far behind the best at the same step
};

// Trials by rising rate, in which only the rates of one kind differ.
struct RateCurve {
  std::string name;  // of the kind, or "all" of them together
  std::vector<RateTrial> trials;
  std::size_t chosen = 0;  // the best, or one that is as good but for noise and nearer to where it began
};

struct RateReport {
  std::int64_t steps = 0;         // of a trial; 0: it was stopped before any began
  bool stopped = false;           // before all trials had run: nothing is advised
  double start_loss = 0;          // of the first step, the same for all
  std::vector<RateCurve> curves;  // "all" first, then of "cores", "gates" and "other" what the model has
  LearningRates advised;
  // Kinds whose rate is below the best of the trials, since twice the best was much worse.
  std::vector<std::string> lowered;
};

// The trials with bars, and what to put into a recipe.
std::string describe(const RateReport& report);
// Loss over the rate in powers of two of the recipe's.
Plot plot_of(const RateReport& report, const LearningRates& recipe);

}  // namespace comera
