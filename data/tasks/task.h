#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/tables/table_reader.h"

namespace comera::data {

enum class TaskKind : std::uint8_t { classification, regression };

// The score that measures a model's quality; larger is better.
enum class TaskMetric : std::uint8_t { accuracy, f1, matthews, pearson, spearman };
std::string_view name_of(TaskMetric metric);
// Whether it is for a regression; the others are for classification.
bool is_of_regression(TaskMetric metric);

// The location and columns of a task's examples.
struct Task {
  struct Set {
    std::string name;  // of the file, for reports: "dev_matched"
    std::filesystem::path file;
  };

  std::string name = {};
  TaskKind kind = TaskKind::classification;
  TaskMetric metric = TaskMetric::accuracy;
  std::vector<std::string> text = {};  // one or two columns
  std::string label = {};              // column
  std::vector<std::string> labels =
      {};  // class names in the order of their indices; empty: determined from the data
  TableFormat format = TableFormat::automatic;
  bool header = true;
  std::vector<Set> train = {}, validation = {};
};

// Names of the GLUE tasks that have labels: "cola", "mnli", "mrpc", "qnli", "qqp", "rte", "sst2", "stsb",
// "wnli".
std::vector<std::string> glue_tasks();

// A GLUE task (Wang et al., 2019) in the folder with its official TSV files. UsageError for an unknown name.
// Files are not opened.
Task glue_task(const std::string& name, const std::filesystem::path& folder);

}  // namespace comera::data
