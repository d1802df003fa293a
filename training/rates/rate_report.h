#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "recipes/recipe.h"
#include "reports/plot.h"

namespace comera {

// By which a trial must be better to count as better: in nats, or as a share of the variance of a
// regression's scores.
constexpr double rate_noise = 0.01;

// One short training run from the common start.
struct RateTrial {
  LearningRates rates;
  double loss = 0;         // mean over the last fifth, nats per target; infinite if not finite
  std::int64_t steps = 0;  // fewer if it was abandoned, far behind the best at the same step
};

// Trials by increasing rate, in which only the rates of one kind differ.
struct RateCurve {
  std::string name;  // of the kind, or "all" for all kinds together
  std::vector<RateTrial> trials;
  std::size_t chosen = 0;  // the best, or one equally good within noise and closer to the initial rate
};

struct RateReport {
  std::int64_t steps = 0;         // of a trial; 0: stopped before any began
  bool stopped = false;           // stopped before all trials had run: no advice
  double start_loss = 0;          // of the first step, the same for all
  double least_gain = 0.5;        // by which the best trial must have improved for advice, in units
  double unit = 1;                // of losses that are compared: EncoderTask::loss_unit()
  std::vector<RateCurve> curves;  // "all", then those of "cores", "gates" and "other" in the model
  LearningRates advised;
  // Kinds whose rate is set below the best trial's, because twice that rate was much worse.
  std::vector<std::string> lowered;
};

// The trials with bars, and the advised recipe values.
std::string describe(const RateReport& report);
// Loss over the rate, in powers of two relative to the recipe's.
Plot plot_of(const RateReport& report, const LearningRates& recipe);

}  // namespace comera
