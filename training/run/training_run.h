#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "training/logging/event_writer.h"
#include "training/logging/metrics.h"
#include "training/logging/progress.h"
#include "training/logging/step_metrics.h"
#include "training/ranks/rank_stages.h"
#include "training/resume/run_checkpoints.h"
#include "training/resume/run_snapshot.h"
#include "training/resume/run_state.h"
#include "training/run/divergence_watch.h"
#include "training/run/job.h"
#include "training/run/phase_plan.h"
#include "training/run/run_setup.h"
#include "training/step/step_engine.h"
#include "training/tasks/evaluation.h"

namespace comera {

struct TrainingOutcome {
  bool finished = false;  // false: stopped early, with a checkpoint
  std::int64_t step = 0;
  std::optional<Evaluation> evaluation;  // of the finished model, if there are held-out data
  double units_per_second = 0;           // over this process's steps
  std::filesystem::path checkpoint;
  std::filesystem::path best;  // for a task with evaluation: the checkpoint with the best score
  double best_score = 0;
  std::int64_t best_step = 0;
  std::int64_t skipped = 0;  // non-finite steps of the whole run, which changed nothing
};

// Training progress, for display.
struct RunPlace {
  std::string phase;     // the phase's name
  double work_left = 0;  // in steps of that phase
};

// Pretraining or fine-tuning according to a recipe: phases of steps, evaluation, metrics, checkpoints, and
// bit-exact resume. In a job of several processes, each runs its share of every step's micro-batches, and all
// have the same model; only process 0 writes the run's files.
class TrainingRun {
 public:
  TrainingRun(const Recipe& recipe, const TrainingOptions& options);
  ~TrainingRun();

  TrainingOutcome run();

  StepEngine& engine() { return *engine_; }
  const Communicator& communicator() const { return setup_.device_communicator(); }
  const TrainingTask& task() const { return *setup_.task; }
  const Recipe& recipe() const { return setup_.recipe; }
  const ModelForm& form() const { return *setup_.form; }
  std::int64_t total_steps() const { return plan_.total(); }
  RunPlace place() const { return {section().name, plan_.work_left(state_.phase, state_.phase_step)}; }
  // Whether it continues from one of its checkpoints.
  bool resumed() const { return setup_.found.has_value(); }
  // Whether there is nothing left to do.
  bool finished() const { return (phase_done() && state_.phase + 1 == plan_.phases()) || out_of_patience(); }
  // Whether run.patience has ended it.
  bool out_of_patience() const {
    const std::int64_t patience = setup_.recipe.run.patience;
    return patience > 0 && state_.not_better >= patience;
  }

 private:
  struct Phase {
    std::unique_ptr<data::BatchStream> loader;
    Schedule schedule;
    double rate_factor = 0;  // of the last step
  };
  class Stopwatch;

  // training_begin.cpp: until the first step.
  void make_engine();
  void remake_engine();  // for the recipe as it is now
  std::int64_t micro_batches_per_epoch(std::int64_t phase) const;
  void load_initial();
  void resume();
  void say_place() const;
  Recipe recipe_to_keep() const;
  void write_files();

  // training_run.cpp: the loop.
  const PhaseSection& section() const { return setup_.recipe.phases[state_.phase]; }
  bool phase_done() const { return state_.phase_step >= plan_.steps(state_.phase); }
  TrainingOutcome train();
  void open_phase();
  void grow();
  void step();
  void take_time(double seconds);
  bool merge_due() const;
  void log_step(const Speed& speed);
  void compact();
  bool evaluation_due() const;
  std::optional<Evaluation> evaluate(bool record);
  void evaluate_start();
  void log_evaluation(const Evaluation& evaluation, bool is_best);
  bool is_best(const Evaluation& evaluation) const;
  void take_best(const Evaluation& evaluation);
  bool stop_here() const;
  bool save_due() const;
  bool milestone_due() const;
  TrainingOutcome outcome() const;
  void log_line(const std::string& line) const;
  void write_metrics(std::int64_t step, const Json& line);

  // training_faults.cpp: saving, and handling of faults.
  void save();
  void write(CheckpointWriter& writer);
  void save_aside(const std::filesystem::path& file);
  void skip_step(const data::LoaderPosition& before);
  [[noreturn]] void stop_on_nonfinite(const data::LoaderPosition& before);
  [[noreturn]] void refuse_nonfinite(const std::string& reason);
  void refuse_collapsed(const std::string& what);
  double uniform_loss() const;
  void watch_divergence();
  [[noreturn]] void fail_with_cause(const Error& error) const;
  void set_best_aside();
  std::string rate_key() const;

  RunParts parts() { return {setup_, *engine_, state_, ranks_, plan_}; }
  TrainingTask::PhaseOf phase_of(std::int64_t phase) const {
    return {setup_.recipe, phase, phase < plan_.phases() ? plan_.steps(phase) : 0};
  }

  RunSetup setup_;  // before the engine: NCCL ends after the graphs that recorded its sums
  Job job_;
  RunCheckpoints checkpoints_;
  std::unique_ptr<Trainable> model_;
  std::unique_ptr<StepEngine> engine_;  // of the model
  PhasePlan plan_;
  RunState state_;
  RankStages ranks_;
  std::optional<DivergenceWatch> watch_;
  std::optional<DataPlace> place_;  // where to seek when the phase is opened
  std::unique_ptr<MetricsWriter> metrics_;
  std::unique_ptr<EventWriter> events_;  // null: without
  std::unique_ptr<Phase> phase_;
  std::unique_ptr<ProgressBar> progress_;
  std::chrono::steady_clock::time_point accounted_;  // training time up to here is in state_
  bool begins_trained_ = false;  // a new run's model comes from a checkpoint as a whole, its head too
  bool save_agreed_ = false;     // process 0 has requested a checkpoint of the completed step
};

}  // namespace comera
