#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "data/tasks/task.h"

namespace comera::data {

// What the benchmark GLUE (Wang et al., 2019) says of its tasks beyond their files' columns
// (data/tasks/task.h).

// All tasks, those with the most examples first.
const std::vector<std::string>& glue_tasks_by_size();

// The folder of a task's files in the official archive: "SST-2". UsageError for a name that is none.
std::string glue_folder(const std::string& task);

// The numbers that are published of a task; its score is their mean.
struct GlueNumber {
  std::string set;  // of the validation sets
  TaskMetric metric = TaskMetric::accuracy;
};
std::vector<GlueNumber> glue_numbers(const std::string& task);

// Whether it has fewer than 10,000 training examples, so that a few passes over them are few steps.
bool has_few_examples(const std::string& task);

// WNLI's validation and training sets contradict each other, and it is left out of averages.
bool counts_in_average(const std::string& task);

// A test set without answers, and the file that the benchmark's server wants for it: a header, and for each
// row its index and the prediction.
struct GlueTest {
  std::filesystem::path file;
  Task task;               // how its texts are read
  std::string submission;  // "MNLI-m.tsv"
};
// Those whose files are in the folder with all tasks' folders. The diagnostic set AX belongs to MNLI.
std::vector<GlueTest> glue_tests(const std::string& task, const std::filesystem::path& data);

}  // namespace comera::data
