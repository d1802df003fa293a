#pragma once

#include <filesystem>
#include <string>

#include "exchange/export_model.h"

namespace comera::exchange {

// The README.md of an exported model: what it is, how to load it, on what and how it was trained, what it
// scores, and its recipe. run: the run's folder, whose metrics.jsonl has the scores; empty: there is none.
std::string model_card(const LoadedModel& loaded, const std::filesystem::path& run, const Exported& exported);

}  // namespace comera::exchange
