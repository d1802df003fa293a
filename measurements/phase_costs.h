#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/tokenizers/tokenizer.h"
#include "measurements/step_benchmark.h"
#include "recipes/recipe.h"

namespace comera {

// The cost of a recipe's phase on this machine.
struct PhaseCost {
  std::string name;
  std::int64_t length = 0, tokens = 0;  // of a sequence, and of a step, at most
  std::int64_t mean_tokens = 0;         // of a step
  // A step with all its micro-batches: the median, and the range. A phase that adapts ranks is measured with
  // the recipe's initial ranks.
  double seconds = 0, least = 0, most = 0;
  std::int64_t samples = 0;      // steps that were measured
  std::optional<double> steps;   // unknown if the recipe counts epochs
  std::optional<double> epochs;  // used in that case
  MemoryByKind bytes{};

  std::optional<double> hours() const;
};

struct PhaseCosts {
  std::string machine;
  double load =
      0;  // of the machine before the measurement: processes that wanted to run, over the last minute
  // The recipe's: once all phases have known steps, they get the steps that fit into these hours.
  std::optional<double> max_hours;
  bool hours_divided = false;
  std::vector<PhaseCost> phases;
  MemoryByKind teacher{};  // of it in the bytes of each phase
};

// What the micro-batches of an epoch hold in all.
struct EpochSize {
  double micro_batches = 0, sequences = 0, tokens = 0;
  std::int64_t sequences_per_sample = 1;
};

// Trains a model of random weights on random tokens, a few steps of each phase, on the recipe's device and
// threads. In a job of several processes, these share the micro-batches of a step; their communication is not
// included. tokenizer: if not null, a student is answered by its teacher; from kept answers it is measured
// without. epochs: one of each phase; micro-batches then hold what they hold in the mean, in equal sequences,
// otherwise as much as they can. UsageError for a recipe without phases, for what the device does not
// support, and for a teacher that does not fit.
PhaseCosts measure_phases(const Recipe& recipe, std::int64_t vocabulary, int processes = 1,
                          const data::Tokenizer* tokenizer = nullptr,
                          const std::vector<EpochSize>& epochs = {});

// Divides max_hours among the phases by their tokens, as a run does, if all have steps; does nothing without
// max_hours, or when called again.
void divide_hours(PhaseCosts& costs);

// Tables of time and of memory.
std::string phase_costs_text(const PhaseCosts& costs);

}  // namespace comera
