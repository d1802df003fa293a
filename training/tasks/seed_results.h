#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/tasks/scores.h"
#include "recipes/recipe.h"
#include "training/logging/json.h"

namespace comera {

// Runs that differ in their seed, or in their task: what makes their results comparable.

// A fingerprint of the files' contents.
std::string fingerprint_of_files(const std::vector<std::filesystem::path>& files);
// Of a recipe's training and validation files.
std::string fingerprint_of_task(const Recipe& recipe);

// One table covers one set of settings and one data set: UsageError if the result of a run (its folder, its
// resolved recipe, the fingerprint of its data; empty: unknown) has other data or another recipe, ignoring
// where the run lies and what it runs on.
void require_settings(const std::filesystem::path& run, const Recipe& before, const std::string& data_before,
                      const Recipe& recipe, const std::string& data);

// Notes in RUN/settings.json with which settings and data a run is begun; if it has checkpoints already,
// require_settings() with what is noted.
void require_begun_settings(const std::filesystem::path& run, const Recipe& recipe, const std::string& data);

// All runs in a folder start from the same weights, also those of a later call, before which the model may
// have been trained further. UsageError if they do not. from: a checkpoint or a run's folder; empty: random.
void keep_origin(const std::filesystem::path& folder, const std::filesystem::path& from, bool scratch);

// The scores of a trained model on each validation set of its resolved recipe.
std::vector<data::TaskScores> score_model(const std::filesystem::path& checkpoint, const Recipe& recipe);

// Statistics of one score over several seeds.
struct MeanAndDeviation {
  double mean = 0;
  double deviation = 0;  // sample standard deviation (n - 1); 0 for one seed
};
MeanAndDeviation mean_and_deviation(const std::vector<double>& values);

// The result of a fine-tuning run with one of several seeds: the scores of its best model.
struct SeedResult {
  std::int64_t seed = 0;
  std::vector<data::TaskScores> sets;  // one or more
  std::int64_t best_step = 0, steps = 0;
  std::string data;  // fingerprint_of_task()
  Recipe recipe;     // resolved
};

// RUN/result.json. Error if it is damaged.
void write_seed_result(const std::filesystem::path& run, const SeedResult& result);
std::optional<SeedResult> read_seed_result(const std::filesystem::path& run);

// Settings of the scale of scores (score_settings) of a run that was begun and has no result; none if there
// is no such run. Error as of require_begun_settings().
std::vector<std::string> begun_score_settings(const std::filesystem::path& run);

// A line for each seed and validation set, then the mean and the deviation over the seeds.
std::string seed_table(const std::vector<SeedResult>& results);
Json seed_json(const std::vector<SeedResult>& results);

}  // namespace comera
