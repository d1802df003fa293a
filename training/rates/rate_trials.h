#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "data/batching/loader.h"
#include "optim/learning_rates.h"
#include "training/rates/rate_search.h"
#include "training/step/step_engine.h"
#include "training/tasks/encoder_task.h"

namespace comera {

// The trials of a learning-rate search, and what they share: initial weights, batches, and the number of
// steps.
class RateTrials {
 public:
  // Thrown by the functions below if a stop is requested.
  struct Stopped {};

  RateTrials(const Recipe& recipe, const RateSearchOptions& options);

  // Whether the model has parameters that use the rate of this kind.
  bool has(const RateKind& kind);
  std::int64_t steps() const { return steps_; }
  double start_loss() const { return best_.front(); }
  double loss_unit() const { return task_->loss_unit(); }

  // Chooses as many steps as the minutes allow, from the measured time of a few steps, unless the options
  // give the steps of a trial.
  void choose_steps();
  RateTrial run(const LearningRates& rates);

 private:
  ParameterStore& store();
  void start();
  std::optional<double> one_step(data::Loader& loader, std::int64_t step, const LearningRates& highest);
  std::int64_t steps_that_fit(double seconds) const;
  bool is_hopeless(const std::vector<double>& losses, std::int64_t step) const;

  RateSearchOptions options_;
  Recipe recipe_;
  data::Tokenizer tokenizer_;
  EncoderConfig config_;
  Processor processor_;
  std::unique_ptr<EncoderTask> task_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<StepEngine> engine_;  // of the model
  std::int64_t steps_;
  std::vector<double> best_;  // losses of the best trial, by step
  double best_loss_ = 0;      // valid once there is one
};

}  // namespace comera
