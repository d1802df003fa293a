#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoints/checkpoint_file.h"
#include "checkpoints/rank_history.h"
#include "optim/schedule.h"
#include "recipes/recipe.h"
#include "training/logging/json.h"
#include "training/resume/run_state.h"
#include "training/step/step_engine.h"
#include "training/tasks/model_form.h"

namespace comera {

// The ranks of a run: what each phase does with them, the target size, and the compaction of pruned ranks.
// docs/guide/rank-adaptation.md describes the method. A phase that does not adapt ranks leaves all of it
// unchanged.
class RankStages {
 public:
  using LogLine = std::function<void(const std::string&)>;

  // The recipe and the form must be those of the model, and outlive this: compact() changes both.
  RankStages(Recipe& recipe, ModelForm& form) : recipe_(recipe), form_(form) {}

  // ---- Before the first step.

  // Takes over the initial sizes and norms of an adapted model, if the checkpoint is of the same model.
  void take_units(const CheckpointReader& reader);
  // Loads the data of save().
  void load(const CheckpointReader& reader);
  void save(CheckpointWriter& writer) const;
  // A compressing phase that was begun by an earlier version, which ordered entries by their magnitude alone,
  // keeps that order.
  void keep_prune_order(const CheckpointReader& reader, const RunState& state);
  // Called when the model exists. UsageError if a coming phase has an unreachable target. False if no phase
  // adapts ranks.
  bool begin(const Trainable& model, const RunState& state);
  // The same for a model that has been given more blocks. Sizes and norms count from here on.
  void begin_anew(const Trainable& model, const RunState& state);

  // ---- Phases.

  // Called when a phase begins or resumes; `steps` are the phase's. True if a compressing phase begins,
  // because the best model so far has another size and does not count for this phase.
  bool open(StepEngine& engine, const RunState& state, std::int64_t steps, const Schedule& schedule,
            const LogLine& log_line);
  // Called when the phase has ended. Logs the result if it compressed.
  void close(const RunState& state, const LogLine& log_line);

  bool adapting() const { return objective_ != PhaseObjective::fixed; }
  // The values that change from step to step. Kept for the step's metrics.
  RankStep begin_step(std::int64_t phase_step, std::int64_t steps);
  // After the step: true if it removed layers.
  bool end_step(const StepEngine& engine);
  void add_metrics(Json& metrics) const;
  // Whether the current model may be the best: once a phase compresses, the model must have reached that
  // phase's size.
  // Within half a percent: ranks are whole numbers, so most targets cannot be met exactly.
  bool target_reached() const { return size_target_ == 0 || state_.size_left <= 1.005 * size_target_; }

  // ---- Rejecting disconnected networks: a model needs a path from its input to its output.

  bool collapsed(const Trainable& model) const;
  // How to avoid a disconnected network: a part of a sentence.
  const char* advice() const;

  // ---- Compaction.

  bool compaction_due(const RunState& state) const;
  // Removes pruned ranks from memory; the next step is unaffected. `remake` destroys the engine and makes
  // that of the updated recipe, whose micro-batches must then be set. False if there was nothing to remove.
  bool compact(std::unique_ptr<StepEngine>& engine, const std::function<void()>& remake,
               const RunState& state, const LogLine& log_line);

 private:
  PhaseObjective objective_of(std::int64_t phase) const;
  double target_of(std::int64_t phase, const LayerRanks& ranks, double other_parameters) const;
  void check_target(std::int64_t phase, const LayerRanks& ranks, double other_parameters) const;
  void check_targets(const Trainable& model, const RunState& state) const;
  void adapt(StepEngine& engine) const;
  std::int64_t removed() const { return gone_ + static_cast<std::int64_t>(state_.removed); }
  std::int64_t count_removed() const;

  Recipe& recipe_;
  ModelForm& form_;
  RankUnits units_;  // size 0: no phase has adapted or will adapt ranks
  RankHistory history_;
  PhaseObjective objective_ = PhaseObjective::fixed;  // of the current phase
  ResolvedAdaptation resolved_;
  double size_target_ = 0;  // s₀ of the last compressing phase, which also binds later phases
  double size_start_ = 1;   // s at the start of that phase
  RankStep step_;           // the last step
  RankState state_;
  double unpacked_ = 0;    // entries pruned since the last compaction
  std::int64_t gone_ = 0;  // layers removed by compactions
};

}  // namespace comera
