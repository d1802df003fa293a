#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/tasks/scores.h"
#include "recipes/recipe.h"
#include "training/logging/json.h"

namespace comera {

// What one fine-tuning on a GLUE task has come to.
struct GlueResult {
  std::string task;
  std::int64_t seed = 0;
  std::vector<double> numbers;  // of the best model: those of data::glue_numbers(task), in their order
  std::int64_t best_step = 0, steps = 0;
  std::int64_t examples = 0;  // of the validation sets
  std::string data =
      {};         // a fingerprint of the files that it was trained and scored on; empty: an older result
  Recipe recipe;  // resolved

  double score() const;  // the mean of the numbers
};

// RUN/result.json. Error if it is damaged.
void write_result(const std::filesystem::path& run, const GlueResult& result);
bool has_result(const std::filesystem::path& run);
GlueResult read_result(const std::filesystem::path& run);

// One table is of one setting and of one set of data: UsageError if the run's result is of another recipe,
// but for where the run lies and what it runs on, or of other data.
void require_settings(const std::filesystem::path& run, const GlueResult& result, const Recipe& recipe,
                      const std::string& data);

// Of files' contents.
std::string fingerprint_of_files(const std::vector<std::filesystem::path>& files);

// Several seeds of one number.
struct MeanAndDeviation {
  double mean = 0;
  double deviation = 0;  // of a sample (n - 1); 0 for one seed
};
MeanAndDeviation mean_and_deviation(const std::vector<double>& values);

// The benchmark so far, in the order of data::glue_tasks_by_size().
class GlueTable {
 public:
  void add(const GlueResult& result) { results_.push_back(result); }
  void leave_out(const std::string& task, const std::string& reason) { left_out_.emplace_back(task, reason); }

  // For people: a line for each task with its numbers by their names, in percent, mean ± deviation, and the
  // settings; then the average over tasks but WNLI; then what was left out.
  std::string text() const;
  Json json() const;
  // Of the seed with the highest score.
  const GlueResult& best_of(const std::string& task) const;

 private:
  std::vector<std::string> tasks() const;
  std::vector<const GlueResult*> of_task(const std::string& task) const;
  std::optional<double> average() const;

  std::vector<GlueResult> results_;
  std::vector<std::pair<std::string, std::string>> left_out_;
};

}  // namespace comera
