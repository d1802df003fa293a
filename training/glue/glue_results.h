#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/tasks/scores.h"
#include "recipes/recipe.h"
#include "training/logging/json.h"
#include "training/tasks/seed_results.h"

namespace comera {

// The result of one fine-tuning run on a GLUE task.
struct GlueResult {
  std::string task;
  std::int64_t seed = 0;
  std::vector<double> numbers;  // of the best model: those of data::glue_numbers(task), in that order
  std::int64_t best_step = 0, steps = 0;
  std::int64_t examples = 0;  // of the validation sets
  // The share of the most frequent class in the first of them; nothing for a regression and in older results.
  std::optional<double> majority = {};
  std::string data = {};  // a fingerprint of the training and validation files; empty: an older result
  Recipe recipe;          // resolved

  double score() const;  // the mean of the numbers
};

// RUN/result.json. Error if it is damaged.
void write_result(const std::filesystem::path& run, const GlueResult& result);
bool has_result(const std::filesystem::path& run);
GlueResult read_result(const std::filesystem::path& run);

// The benchmark results so far, in the order of data::glue_tasks_by_size().
class GlueTable {
 public:
  void add(const GlueResult& result) { results_.push_back(result); }
  void leave_out(const std::string& task, const std::string& reason) { left_out_.emplace_back(task, reason); }

  bool empty() const { return results_.empty(); }
  // As readable text: a line for each score in percent, mean ± deviation, with the accuracy of always giving
  // the most frequent class; the average over all tasks except WNLI; the settings; what was left out.
  std::string text() const;
  Json json() const;
  // The result of the seed with the highest score.
  const GlueResult& best_of(const std::string& task) const;

 private:
  std::vector<std::string> tasks() const;
  std::vector<const GlueResult*> of_task(const std::string& task) const;
  std::optional<double> average() const;
  std::string settings() const;

  std::vector<GlueResult> results_;
  std::vector<std::pair<std::string, std::string>> left_out_;
};

}  // namespace comera
