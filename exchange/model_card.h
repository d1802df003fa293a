#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "exchange/export_model.h"

namespace comera::exchange {

// A line that only a card of comera contains.
inline constexpr std::string_view model_card_tag = "- comera";

// The README.md of an exported model: what it is, how to load it, on what and how it was trained, its scores,
// and its recipe. run: the run's folder, whose metrics.jsonl has the scores; empty: none.
std::string model_card(const LoadedModel& loaded, const std::filesystem::path& run, const Exported& exported);

}  // namespace comera::exchange
