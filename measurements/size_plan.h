#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "measurements/phase_costs.h"
#include "recipes/model_size.h"
#include "recipes/recipe.h"

namespace comera {

// A model size, and its expected result after the recipe's hours.
struct PlannedSize {
  ModelSize size;
  std::int64_t parameters = 0;
  std::vector<double> step_seconds;  // of each phase
  double tokens = 0;                 // processed by all phases in the hours
  double first_tokens = 0;  // up to the end of the first phase with all layers, where the law applies
  double loss = 0;          // by the fitted law, there
};

struct SizePlan {
  std::vector<PlannedSize> sizes;  // as measured; never empty
  std::size_t best = 0;            // by the fitted law
  // Among the measured sizes, by resampled laws: how often this one is first, how often it is at most `tie`
  // above the first, and the range of its loss without the outer tenths.
  double first = 0, near_first = 0;
  double least_loss = 0, most_loss = 0;
  std::string out_of_memory;  // the message of the size that ended the search; empty: none
};
inline constexpr double tie = 0.02;  // nats

// Measures one size.
using MeasureSize = std::function<PlannedSize(const ModelSize&)>;

// Tries widths from 128 with ranks of a sixteenth, an eighth and a quarter of the width, until two widths in
// a row are worse than the best, or one does not fit into memory.
SizePlan choose_size(std::int64_t layers, const MeasureSize& measure);

// UsageError for a recipe without run.max_hours, whose phases count epochs, or that is completely dense.
void check_plannable(const Recipe& recipe);

// The recipe's layers, phases and run.max_hours, which must be given, with the sizes of choose_size, measured
// on the recipe's device by measure_phases(). `measured` is called for each.
SizePlan plan_size(const Recipe& recipe, std::int64_t vocabulary,
                   const std::function<void(const PlannedSize&)>& measured);

// Advice if the law expects even the best size to be no better than guessing; else "".
std::string hours_note(const SizePlan& plan, double hours, std::int64_t vocabulary);

// A table row of a size, and the header; and the advice, in sentences.
std::string size_plan_header();
std::string size_plan_row(const PlannedSize& planned);
// tokens_per_step: of the first phase.
std::string size_plan_advice(const SizePlan& plan, std::int64_t tokens_per_step);

}  // namespace comera
