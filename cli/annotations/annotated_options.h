#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/options/table_options.h"

namespace comera::cli {

// One's own files whose answers lie within a text: words with labels in columns, questions and answers in
// JSON.

// What a file is for, by --set task.kind or by its name and beginning; nothing if it is a table.
std::optional<data::TaskKind> annotated_kind(const std::string& file,
                                             const std::vector<std::string>& overrides);

// The recipe with the kind and the columns, but not the files. Errors: the reader's.
TableTask with_annotations(Recipe recipe, const TableOptions& options, data::TaskKind kind,
                           const std::vector<std::string>& overrides);

// For people, a line each: what was found in the file.
std::string describe_annotations(const TableTask& task);

}  // namespace comera::cli
