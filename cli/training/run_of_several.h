#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "training/run/training_run.h"

namespace comera::cli {

// One of the fine-tuning runs that a command makes, begun or continued where it was stopped. Nothing if a
// signal stops it. UsageError if it was begun with other settings or data; Error if it has no best model.
//   settings: resolved, without what the model's weights determine; recipe: what is trained.
//   data: the fingerprint of its files.
std::optional<TrainingOutcome> train_one_of_several(const Recipe& recipe, const Recipe& settings,
                                                    const std::string& data, TrainingOptions options,
                                                    StopSignals& signals);

}  // namespace comera::cli
