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

// The ranks of a run: what each phase does to them, the target size, and the compaction
// of what has died. docs/guide/rank-adaptation.md has the method. A phase that adapts no ranks changes
// nothing of it.
class RankStages {
 public:
  using LogLine = std::function<void(const std::string&)>;

  // The recipe and the form are those of the model, and must outlive this: compact() changes both.
  RankStages(Recipe& recipe, ModelForm& form) : recipe_(recipe), form_(form) {}

  // ---- Before the first step.

  // Takes the sizes and norms that an adapted model was measured by from its start on, if the checkpoint is
  // of the same model.
  void take_units(const CheckpointReader& reader);
  // What save() has written.
  void load(const CheckpointReader& reader);
  void save(CheckpointWriter& writer) const;
  // A phase that an earlier version began to compress, which ordered entries by their size alone, goes on so.
  void keep_order(const CheckpointReader& reader, const RunState& state);
  // The model is there. UsageError if a phase to come has a target that cannot be reached. False if no phase
  // adapts ranks.
  bool begin(const Trainable& model, const RunState& state);

  // ---- Phases.

  // When a phase begins, or a run goes on within it; `steps` are the phase's. True if one that compresses
  // begins: what was best at another size is no model of this phase.
  bool open(StepEngine& engine, const RunState& state, std::int64_t steps, const Schedule& schedule,
            const LogLine& log_line);
  // The phase has ended. Says so if it compressed.
  void close(const RunState& state, const LogLine& log_line);

  bool adapting() const { return objective_ != PhaseObjective::fixed; }
  // What changes from step to step. Kept for the metrics of the step.
  RankStep begin_step(std::int64_t phase_step, std::int64_t steps);
  // After the step: true if layers were removed by it.
  bool end_step(const StepEngine& engine);
  void add_metrics(Json& metrics) const;
  // Whether a model of now may be the best: once a phase compresses it has to have that phase's size.
  bool target_reached() const { return size_target_ == 0 || state_.size_left <= size_target_; }

  // ---- A network without any way from its input to its output is no result.

  bool collapsed(const Trainable& model) const;
  // How such an end is avoided: a part of a sentence.
  const char* advice() const;

  // ---- Compaction.

  bool compaction_due(const RunState& state) const;
  // Removes from memory what is dead; the next step is what it would have been. `remake` destroys the engine
  // and makes that of the recipe as it is then, whose capacity is to be set. False if there was nothing.
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
  RankUnits units_;  // size 0: no phase has adapted ranks, and none will
  RankHistory history_;
  PhaseObjective objective_ = PhaseObjective::fixed;  // of the current phase
  ResolvedAdaptation resolved_;
  double size_target_ = 0;  // s₀ of the last phase that compressed, which those after it are held to as well
  double size_start_ = 1;   // s when that phase began
  RankStep step_;           // of the last one
  RankState state_;
  double unpacked_ = 0;    // entries that died since the last compaction
  std::int64_t gone_ = 0;  // layers that compactions have removed
};

}  // namespace comera
