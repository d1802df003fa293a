#include "data/tables/glue.h"

#include <algorithm>
#include <cctype>

#include "kernels/core/check.h"

namespace comera::data {

namespace {

struct Names {
  const char *task, *folder;
  std::vector<GlueNumber> numbers;
};

const std::vector<Names>& all_names() {
  using enum TaskMetric;
  static const std::vector<Names> names = {
      {"cola", "CoLA", {{"dev", matthews}}},
      {"mnli", "MNLI", {{"dev_matched", accuracy}, {"dev_mismatched", accuracy}}},
      {"mrpc", "MRPC", {{"dev", f1}, {"dev", accuracy}}},
      {"qnli", "QNLI", {{"dev", accuracy}}},
      {"qqp", "QQP", {{"dev", f1}, {"dev", accuracy}}},
      {"rte", "RTE", {{"dev", accuracy}}},
      {"sst2", "SST-2", {{"dev", accuracy}}},
      {"stsb", "STS-B", {{"dev", pearson}, {"dev", spearman}}},
      {"wnli", "WNLI", {{"dev", accuracy}}},
  };
  return names;
}

const Names& names_of(const std::string& task) {
  const auto found =
      std::ranges::find_if(all_names(), [&](const Names& names) { return task == names.task; });
  if (found == all_names().end()) static_cast<void>(glue_task(task, {}));  // throws with the list of tasks
  return *found;
}

}  // namespace

const std::vector<std::string>& glue_tasks_by_size() {
  static const std::vector<std::string> tasks = {"mnli", "qqp",  "qnli", "sst2", "cola",
                                                 "stsb", "mrpc", "rte",  "wnli"};
  return tasks;
}

std::string glue_task_named(const std::string& given) {
  std::string name;
  for (const char c : given)
    if (c != '-' && c != '_') name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return std::ranges::count(glue_tasks_by_size(), name) > 0 ? name : given;
}

std::string glue_folder(const std::string& task) { return names_of(task).folder; }

std::vector<GlueNumber> glue_numbers(const std::string& task) { return names_of(task).numbers; }

bool has_few_examples(const std::string& task) {
  return task == "cola" || task == "mrpc" || task == "rte" || task == "stsb" || task == "wnli";
}

bool counts_in_average(const std::string& task) { return task != "wnli"; }

std::vector<GlueTest> glue_tests(const std::string& name, const std::filesystem::path& data) {
  const std::string folder = glue_folder(name);
  Task task = glue_task(name, data / folder);
  if (name == "cola") {  // its test file has a header, unlike the others
    task.header = true;
    task.text = {"sentence"};
  }
  std::vector<GlueTest> tests;
  const auto add = [&](const std::filesystem::path& file, const std::string& submission) {
    std::error_code code;
    if (std::filesystem::exists(file, code)) tests.push_back({file, task, submission + ".tsv"});
  };
  if (name == "mnli") {
    add(data / folder / "test_matched.tsv", "MNLI-m");
    add(data / folder / "test_mismatched.tsv", "MNLI-mm");
    add(data / "AX" / "diagnostic.tsv", "AX");
    add(data / "AX" / "test.tsv", "AX");
  } else {
    add(data / folder / "test.tsv", folder);
  }
  return tests;
}

}  // namespace comera::data
