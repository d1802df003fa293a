#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "measurements/phase_costs.h"
#include "recipes/model_size.h"
#include "recipes/recipe.h"

namespace comera {

// A size of the model, and what may be expected of it after the recipe's hours.
struct PlannedSize {
  ModelSize size;
  std::int64_t parameters = 0;
  std::vector<double> step_seconds;  // of each phase
  double tokens = 0;                 // that all phases see in the hours
  double first_tokens = 0;           // the first of them, of which the law speaks
  double loss = 0;                   // by the fitted law, at the end of the first phase
};

struct SizePlan {
  std::vector<PlannedSize> sizes;  // as they were measured; never empty
  std::size_t best = 0;            // by the fitted law
  // By resampled laws, among the sizes that were measured: the share that puts this one first, the share that
  // has it at most `tie` above the first, and the range of its loss without the outermost tenths.
  double first = 0, near_first = 0;
  double least_loss = 0, most_loss = 0;
  std::string out_of_memory;  // what the size said that ended the search; empty: none did
};
inline constexpr double tie = 0.02;  // nats

// Measures one size.
using MeasureSize = std::function<PlannedSize(const ModelSize&)>;

// Tries widths from 128 on with ranks of a sixteenth, an eighth and a quarter of the width, until two widths
// in a row are worse than the best, or one does not fit into memory.
SizePlan choose_size(std::int64_t layers, const MeasureSize& measure);

// UsageError for a recipe without run.max_hours, or whose phases count passes, or that is all dense.
void check_plannable(const Recipe& recipe);

// The recipe's layers, phases and run.max_hours, which must be there, with the sizes of choose_size, measured
// on the recipe's device as measure_phases() does. `measured` hears of each.
SizePlan plan_size(const Recipe& recipe, std::int64_t vocabulary,
                   const std::function<void(const PlannedSize&)>& measured);

// Where the law expects of the best size, too, no more than of guessing: what to do; else "".
std::string hours_note(const SizePlan& plan, double hours, std::int64_t vocabulary);

// A table row of a size, and the line above them; and what is advised, in sentences.
std::string size_plan_header();
std::string size_plan_row(const PlannedSize& planned);
// tokens_per_step: of the first phase.
std::string size_plan_advice(const SizePlan& plan, std::int64_t tokens_per_step);

}  // namespace comera
