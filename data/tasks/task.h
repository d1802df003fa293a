#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/tables/table_reader.h"

namespace comera::data {

enum class TaskKind : std::uint8_t {
  classification,        // one of several classes
  regression,            // a number
  multi_label,           // any number of several labels
  token_classification,  // a label for each word
  question_answering,    // a span of a text
  contrastive,           // vectors that are near each other where texts belong together
};
std::string_view name_of(TaskKind kind);

// The score that measures a model's quality; larger is better.
enum class TaskMetric : std::uint8_t {
  accuracy,
  f1,
  matthews,
  pearson,
  spearman,
  micro_f1,
  macro_f1,
  mrr,
  recall_at_1,
  recall_at_10,
  exact_match,
};
std::string_view name_of(TaskMetric metric);
// Whether it measures a task of this kind.
bool fits(TaskMetric metric, TaskKind kind);

// The rows of a file that belong to a set. Rows to train on and held-out rows are told apart by their texts
// alone: equal texts are on the same side, whatever the order of the rows.
enum class TaskPart : std::uint8_t { all, training, held_out };

// The location and columns of a task's examples.
struct Task {
  struct Set {
    std::string name;  // of the file, for reports: "dev_matched"
    std::filesystem::path file;
    TaskPart part = TaskPart::all;
  };

  std::string name = {};
  TaskKind kind = TaskKind::classification;
  TaskMetric metric = TaskMetric::accuracy;
  std::vector<std::string> text = {};  // one or two columns; contrastive: up to three
  std::string label = {};  // column, contrastive: of the labels to learn from, or none; empty for several
                           // labels that have a column of 0 or 1 each, called as they
  std::vector<std::string> labels =
      {};  // class names in the order of their indices; empty: determined from the data
  TableFormat format = TableFormat::automatic;
  bool header = true;
  std::string separator = ",";  // between several labels in one field
  std::int64_t overlap = 128;   // tokens that windows over a long text share
  bool unanswerable = false;    // questions may have no answer in their text
  double no_answer_threshold = 0;
  double held_out = 0;  // share of the rows of a file that are held out, for sets that are a part of one
  std::vector<Set> train = {}, validation = {};
};

// Whether each label has a column.
inline bool has_label_columns(const Task& task) {
  return task.kind == TaskKind::multi_label && task.label.empty() && !task.labels.empty();
}

// The texts of a JSON list arrive with this between them where labels are read.
inline constexpr char between_labels = '\x1f';
// The labels in a field, without the spaces around them: those of a list, or those between separators.
std::vector<std::string> labels_in(std::string_view field, FieldKind kind, const std::string& separator);

// Names of the GLUE tasks that have labels: "cola", "mnli", "mrpc", "qnli", "qqp", "rte", "sst2", "stsb",
// "wnli".
std::vector<std::string> glue_tasks();

// A GLUE task (Wang et al., 2019) in the folder with its official TSV files. UsageError for an unknown name.
// Files are not opened.
Task glue_task(const std::string& name, const std::filesystem::path& folder);

}  // namespace comera::data
