#pragma once

#include <filesystem>

#include "cli/options/inference_options.h"
#include "data/tasks/task.h"

namespace comera::cli {

// What a model's head answers about the rows of a file. Columns are those of the model's recipe, or of --set;
// an imported model's recipe names none: then its only column is the text, and for scoring a column `label`
// (of a regression also `score`) the label. labels: for scoring.
// UsageError, with the columns that the file has, where they cannot be told, and for columns and files of
// --set that are not there.
data::Task task_for(const InferenceOptions& options, const LoadedModel& loaded,
                    const std::filesystem::path& file, bool labels);

}  // namespace comera::cli
