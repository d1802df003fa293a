#pragma once

#include <filesystem>

#include "reports/plot.h"

namespace comera {

// The curves of a run from its metrics.jsonl: losses and, if the ranks were adapted, the size of the tensor
// trains next to that at the start, and the remaining ranks and layers. Phases are its spans. A last line
// that a killed process left unfinished is ignored. UsageError if the file is missing or empty; Error on an
// invalid line.
Plot training_plot(const std::filesystem::path& metrics);

}  // namespace comera
