#include "data/tasks/task.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace comera::data {

namespace {

const std::vector<Task>& tasks() {
  using enum TaskMetric;
  const auto classes = TaskKind::classification;
  const std::vector<std::string> entailment = {"entailment", "not_entailment"}, binary = {"0", "1"};
  static const std::vector<Task> all = {
      // Only CoLA has no header: source, label, the author's mark, sentence.
      {.name = "cola",
       .kind = classes,
       .metric = matthews,
       .text = {"4"},
       .label = "2",
       .labels = binary,
       .header = false},
      {.name = "mnli",
       .kind = classes,
       .metric = accuracy,
       .text = {"sentence1", "sentence2"},
       .label = "gold_label",
       .labels = {"entailment", "neutral", "contradiction"}},
      {.name = "mrpc",
       .kind = classes,
       .metric = f1,
       .text = {"#1 String", "#2 String"},
       .label = "Quality",
       .labels = binary},
      {.name = "qnli",
       .kind = classes,
       .metric = accuracy,
       .text = {"question", "sentence"},
       .label = "label",
       .labels = entailment},
      {.name = "qqp",
       .kind = classes,
       .metric = f1,
       .text = {"question1", "question2"},
       .label = "is_duplicate",
       .labels = binary},
      {.name = "rte",
       .kind = classes,
       .metric = accuracy,
       .text = {"sentence1", "sentence2"},
       .label = "label",
       .labels = entailment},
      {.name = "sst2",
       .kind = classes,
       .metric = accuracy,
       .text = {"sentence"},
       .label = "label",
       .labels = binary},
      {.name = "stsb",
       .kind = TaskKind::regression,
       .metric = spearman,
       .text = {"sentence1", "sentence2"},
       .label = "score"},
      {.name = "wnli",
       .kind = classes,
       .metric = accuracy,
       .text = {"sentence1", "sentence2"},
       .label = "label",
       .labels = binary},
  };
  return all;
}

}  // namespace

bool fits(TaskMetric metric, TaskKind kind) {
  using enum TaskMetric;
  switch (kind) {
    case TaskKind::classification:
      return metric == accuracy || metric == f1 || metric == matthews;
    case TaskKind::regression:
      return metric == pearson || metric == spearman;
    case TaskKind::multi_label:
      return metric == micro_f1 || metric == macro_f1 || metric == accuracy;
    case TaskKind::token_classification:
      return metric == f1 || metric == accuracy;
    case TaskKind::question_answering:
      return metric == f1 || metric == exact_match;
    case TaskKind::contrastive:
      return metric == mrr || metric == recall_at_1 || metric == recall_at_10 || metric == spearman;
  }
  return false;
}

std::vector<std::string> labels_in(std::string_view field, FieldKind kind, const std::string& separator) {
  const std::string between = kind == FieldKind::words ? std::string(1, between_labels) : separator;
  std::vector<std::string> labels;
  while (true) {
    const std::size_t end = between.empty() ? field.npos : field.find(between);
    const std::string_view part = field.substr(0, end);
    if (const std::size_t begin = part.find_first_not_of(" \t\r"); begin != part.npos)
      labels.emplace_back(part.substr(begin, part.find_last_not_of(" \t\r") + 1 - begin));
    if (end == field.npos) return labels;
    field.remove_prefix(end + between.size());
  }
}

std::string_view name_of(TaskMetric metric) {
  switch (metric) {
    case TaskMetric::accuracy:
      return "accuracy";
    case TaskMetric::f1:
      return "f1";
    case TaskMetric::matthews:
      return "matthews";
    case TaskMetric::pearson:
      return "pearson";
    case TaskMetric::spearman:
      return "spearman";
    case TaskMetric::micro_f1:
      return "micro_f1";
    case TaskMetric::macro_f1:
      return "macro_f1";
    case TaskMetric::mrr:
      return "mrr";
    case TaskMetric::recall_at_1:
      return "recall_at_1";
    case TaskMetric::recall_at_10:
      return "recall_at_10";
    case TaskMetric::exact_match:
      return "exact_match";
  }
  return "";
}

std::string_view name_of(TaskKind kind) {
  switch (kind) {
    case TaskKind::classification:
      return "classification";
    case TaskKind::regression:
      return "regression";
    case TaskKind::multi_label:
      return "multi_label";
    case TaskKind::token_classification:
      return "token_classification";
    case TaskKind::question_answering:
      return "question_answering";
    case TaskKind::contrastive:
      return "contrastive";
  }
  return "";
}

std::vector<std::string> glue_tasks() {
  std::vector<std::string> names;
  for (const Task& task : tasks()) names.push_back(task.name);
  return names;
}

Task glue_task(const std::string& name, const std::filesystem::path& folder) {
  const auto found = std::ranges::find(tasks(), name, &Task::name);
  if (found == tasks().end())
    throw UsageError(
        fmt::format("'{}' is not a GLUE task; choose from {}", name, fmt::join(glue_tasks(), ", ")));
  Task task = *found;
  task.train = {{"train", folder / "train.tsv"}};
  if (name == "mnli")
    task.validation = {{"dev_matched", folder / "dev_matched.tsv"},
                       {"dev_mismatched", folder / "dev_mismatched.tsv"}};
  else
    task.validation = {{"dev", folder / "dev.tsv"}};
  return task;
}

}  // namespace comera::data
