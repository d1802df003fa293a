#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "recipes/recipe.h"

namespace CLI {
class App;
}

namespace comera::cli {

// One's own table to fine-tune on: the [task] of a recipe by options of the command line.
struct TableOptions {
  std::string input, validation;
  std::vector<std::string> text, label;

  // UsageError for options that say something about a table that is not given.
  bool given() const;
};

void add_table_options(CLI::App& command, TableOptions& options);

// A recipe whose task is a table.
struct TableTask {
  Recipe recipe;                         // names its files by their whole paths
  std::string file, validation;          // as given
  std::int64_t rows = 0;                 // with a label; sentences, questions
  std::int64_t labels = 0;               // different ones
  std::vector<std::string> unused = {};  // columns
  std::vector<std::string> notes = {};   // data::TaskColumns::notes
  std::int64_t words = 0, columns = 0;   // of a file of words in columns, whose rows are sentences
  std::int64_t unanswerable = 0;         // questions that have no answer
};

// The recipe for the table. Columns and kind that neither RECIPE, --set (overrides) nor the options name are
// found in the file (data/tasks/task_columns.h). Without validation file, a tenth of the rows is held out, at
// most about 5,000. Errors: find_task_columns()'s.
TableTask with_table(Recipe recipe, const TableOptions& options, const std::vector<std::string>& overrides);

// For people: columns, kind, held-out rows and training, a line each.
std::string describe(const TableTask& task);

// The recipe of a resumed run, with the columns of the options. UsageError if the run was started with
// another table.
Recipe with_same_table(Recipe recipe, const TableOptions& options);

}  // namespace comera::cli
