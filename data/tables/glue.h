#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "data/tasks/task.h"

namespace comera::data {

// Facts about the tasks of the GLUE benchmark (Wang et al., 2019) beyond their files' columns
// (data/tasks/task.h).

// All tasks, those with the most training examples first.
const std::vector<std::string>& glue_tasks_by_size();

// The task of a name in any of its spellings: "sst2" of "SST-2", "SST2" or "sst-2"; other names as they are.
std::string glue_task_named(const std::string& given);

// The folder of a task's files in the official archive: "SST-2". UsageError for an unknown name.
std::string glue_folder(const std::string& task);

// A published score of a task; the task's score is the mean of these.
struct GlueNumber {
  std::string set;  // of the validation sets
  TaskMetric metric = TaskMetric::accuracy;
};
std::vector<GlueNumber> glue_numbers(const std::string& task);

// Whether the task has fewer than 10,000 training examples, so that a few epochs are few steps.
bool has_few_examples(const std::string& task);

// False for WNLI, whose validation and training sets contradict each other: it is left out of averages.
bool counts_in_average(const std::string& task);

// A test set without answers, and the file that the benchmark's server expects for it: a header, and for each
// row its index and the prediction.
struct GlueTest {
  std::filesystem::path file;
  Task task;               // how to read its texts
  std::string submission;  // "MNLI-m.tsv"
};
// The test sets whose files exist in the folder of all tasks' folders. The diagnostic set AX belongs to MNLI.
std::vector<GlueTest> glue_tests(const std::string& task, const std::filesystem::path& data);

}  // namespace comera::data
