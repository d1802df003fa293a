#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "measurements/step_benchmark.h"
#include "recipes/recipe.h"

namespace comera {

// What a phase of a recipe takes on this machine.
struct PhaseCost {
  std::string name;
  std::int64_t length = 0, tokens = 0;  // of a sequence, and the most of a step
  // A step with all its micro-batches: the median, and the range. A phase that adapts ranks is measured with
  // the ranks that the recipe begins with.
  double seconds = 0, least = 0, most = 0;
  std::optional<double> steps;   // not known where the recipe counts passes over its data
  std::optional<double> epochs;  // then these
  MemoryByKind bytes{};

  std::optional<double> hours() const;
};

struct PhaseCosts {
  std::string machine;
  // The recipe's: phases have the steps that these leave time for, as soon as the steps of all are known.
  std::optional<double> max_hours;
  bool hours_divided = false;
  std::vector<PhaseCost> phases;
};

// Trains a model of random weights on random tokens, a few steps of each phase, on the recipe's device and
// threads; in a job of several processes, which share the micro-batches of a step, without what they say to
// one another. UsageError for a recipe without phases, and for what the device cannot do.
PhaseCosts measure_phases(const Recipe& recipe, std::int64_t vocabulary, int processes = 1);

// Divides max_hours among the phases by their tokens, as a run does, where all have steps; nothing without
// max_hours, or the second time.
void divide_hours(PhaseCosts& costs);

// Tables of time and of memory.
std::string phase_costs_text(const PhaseCosts& costs);

}  // namespace comera
