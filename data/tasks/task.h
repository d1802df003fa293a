#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/tables/table_reader.h"

namespace comera::data {

enum class TaskKind : std::uint8_t { classification, regression };

// What one number says how good a model is; larger is better.
enum class TaskMetric : std::uint8_t { accuracy, f1, matthews, pearson, spearman };
std::string_view name_of(TaskMetric metric);
// Whether it scores numbers; the others score classes.
bool is_of_regression(TaskMetric metric);

// Where the examples of a task are and what they look like.
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
      {};  // names of the classes in the order of their numbers; empty: as they come
  TableFormat format = TableFormat::automatic;
  bool header = true;
  std::vector<Set> train = {}, validation = {};
};

// Names of the GLUE tasks that have labels: "cola", "mnli", "mrpc", "qnli", "qqp", "rte", "sst2", "stsb",
// "wnli".
std::vector<std::string> glue_tasks();

// A GLUE task (Wang et al., 2019) in the folder where its official TSV files lie. UsageError for a name that
// is none of them. Files are not opened.
Task glue_task(const std::string& name, const std::filesystem::path& folder);

}  // namespace comera::data
