#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "cli/options/inference_options.h"
#include "data/tasks/task.h"

namespace comera::cli {

// The task of a model's head for the rows of a file. Columns are those of the model's recipe, or of --text,
// --label and --set. An imported model's recipe names none: then the only column is the text, and for scoring
// a column `label` (for a regression also `score`) is the label; other columns are found as in a table to
// learn from (data/tasks/task_columns.h). labels: for scoring.
// UsageError, with the file's columns, if they cannot be determined or are missing, and for missing files of
// --set.
data::Task task_for(const InferenceOptions& options, const LoadedModel& loaded,
                    const std::filesystem::path& file, bool labels);

// Whether --set gives this key.
bool is_set(const InferenceOptions& options, std::string_view key);
// Whether the header of a file, of which `format` was found, lacks a text column of the task. Objects of JSON
// may lack members, and a pipe is read once: these are not looked into.
bool has_other_columns(const data::Task& task, data::TableFormat format, const std::filesystem::path& file);
// The columns of a file that are texts, of a task that names none or others: as in a table to learn from.
// Says which. UsageError, with the file's columns, if that is not plain.
std::vector<std::string> find_texts(const data::Task& task, const std::filesystem::path& file);

}  // namespace comera::cli
