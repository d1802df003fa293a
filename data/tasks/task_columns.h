#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/tasks/task.h"

namespace comera::data {

// What a table has to learn from, as far as it is given; find_task_columns() adds the rest.
struct TaskColumns {
  std::vector<std::string> text = {};  // one or two; contrastive: up to three
  std::string label = {};
  std::vector<std::string> label_columns =
      {};  // several labels with a column of 0 or 1 each, instead of label
  std::optional<TaskKind> kind = {};
  std::int64_t rows = 0;                 // well-formed ones with a label
  std::int64_t labels = 0;               // different ones; at most about most_labels are counted
  std::vector<std::string> unused = {};  // columns with another name than those of ids
  std::vector<std::string> notes = {};   // sentences about classes that may be meant otherwise
};
inline constexpr std::int64_t most_labels = 1000;

// Finds the text columns of a contrastive task (anchor, positive and negative, or pairs as below), or the
// text columns, the label's column and the kind of task, by the names of the columns (sentence1 and
// sentence2, review, label, stars, ...), and where these say nothing by their contents (long free text; a few
// short values that are repeated; numbers with decimals). Lists in JSON are several labels. Reads the file
// once or several times.
//   given: columns and the kind that are not to be looked for.
// UsageError, which lists the columns and says which option to give, wherever that is not plain. Errors:
// TableReader's.
//   separator: between several labels in a field.
TaskColumns find_task_columns(const std::filesystem::path& file, TableFormat format, bool header,
                              const TaskColumns& given, const std::string& separator = ",");

// UsageError if the name of a text column that was found by what it contains, and all others, seem to be a
// row, which would be lost: a name has few words; a number is none, and a class occurs below it too.
void refuse_text_as_name(const std::filesystem::path& file, TableFormat format, bool header,
                         const std::string& column);

// The text columns alone, in the same way, and with that check; a single column is the text. others: columns
// that are none.
std::vector<std::string> find_text_columns(const std::filesystem::path& file, TableFormat format, bool header,
                                           const std::vector<std::string>& others);

}  // namespace comera::data
