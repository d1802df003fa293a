#pragma once

#include <filesystem>

#include "data/tables/glue.h"
#include "training/inference/trained_model.h"

namespace comera {

// Writes the predictions of a fine-tuned model for one test set in the format of the GLUE server: "index",
// the row number from 0, and "prediction", a label or a score. Unreadable rows get the first label, or the
// middle of the score range; returns their number. Error if an output is not finite.
std::int64_t write_submission(const LoadedModel& model, const data::GlueTest& test, std::int64_t length,
                              const std::filesystem::path& file);

}  // namespace comera
