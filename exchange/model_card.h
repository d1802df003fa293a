#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "exchange/export_model.h"

namespace comera::exchange {

// A line of it that no other model's card has.
inline constexpr std::string_view model_card_tag = "- comera";

// The README.md of an exported model: what it is, how to load it, on what and how it was trained, what it
// scores, and its recipe. run: the run's folder, whose metrics.jsonl has the scores; empty: there is none.
std::string model_card(const LoadedModel& loaded, const std::filesystem::path& run, const Exported& exported);

}  // namespace comera::exchange
