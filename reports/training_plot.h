#pragma once

#include <filesystem>

#include "reports/plot.h"

namespace comera {

// The curves of a run from its metrics.jsonl: losses; and, where the ranks were adapted, the size of the
// tensor trains beside the start's, and what is left of ranks and layers. Phases are its spans. A last line
// that a killed process left unfinished is ignored. UsageError if there is no such file or nothing in it yet;
// Error on a line that is none of a run.
Plot training_plot(const std::filesystem::path& metrics);

}  // namespace comera
