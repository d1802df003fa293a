#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "checkpoints/checkpoint_directory.h"
#include "checkpoints/rank_history.h"
#include "data/tokenizers/tokenizer.h"
#include "distributed/communicator.h"
#include "recipes/recipe.h"
#include "training/metrics.h"
#include "training/progress.h"
#include "training/run_directory.h"
#include "training/step_engine.h"
#include "training/training_task.h"

namespace comera {

struct TrainingOptions {
  bool finetune = false;  // the recipe's [task] instead of masked language modelling
  RunMode mode = RunMode::fresh;
  ResumeMode resume = ResumeMode::newest;  // which checkpoint a resumed run may take
  std::int64_t stop_after = 0;  // save and stop after this step (counted over all phases); 0: never
  std::function<bool()> stop_requested = {};          // asked after every step: save and stop
  std::function<void(std::int64_t)> after_step = {};  // for tests and for those who want to watch
  std::FILE* output = stderr;                         // of progress
  const Processor* processor = nullptr;               // instead of the recipe's run.device
  Communicator* communicator = nullptr;               // of a job with several ranks; null: alone
};

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

struct TrainingOutcome {
  bool finished = false;  // false: stopped early, with a checkpoint
  std::int64_t step = 0;
  std::optional<Evaluation> evaluation;  // of the finished model, with held-out data
  double tokens_per_second = 0;          // over the steps of this process
  std::filesystem::path checkpoint;
  std::filesystem::path best;  // of a task with evaluation: the checkpoint with the best score
  double best_score = 0;
  std::int64_t best_step = 0;
  std::int64_t skipped = 0;  // steps of the whole run that were not finite and changed nothing
};

// Where a run stands. All of it is in a checkpoint.
struct TrainingState {
  std::int64_t step = 0;        // steps done over all phases
  std::int64_t phase = 0;       // index of the current phase
  std::int64_t phase_step = 0;  // steps done in it
  std::int64_t tokens = 0;      // seen
  double window_loss = 0;       // loss and targets since the last line of metrics
  double window_targets = 0;
  double best_score = 0;            // of the evaluations so far
  std::int64_t best_step = 0;       // 0: none yet
  std::int64_t evaluated_step = 0;  // the last one whose evaluation is done; 0: none yet
  MetricsPlace logged = {};         // the last line of metrics
  std::int64_t skipped = 0;         // steps that were not finite and changed nothing
  std::int64_t skipped_in_a_row = 0;
  std::string first_nonfinite = {};  // the tensor with which that row began
};

// What a run that adapts ranks knows of them. It is in a checkpoint, but for what follows from the recipe.
struct TrainingRanks {
  RankUnits units;  // size 0: no phase adapts ranks
  RankHistory history;
  PhaseObjective objective = PhaseObjective::fixed;  // of the current phase
  ResolvedAdaptation resolved;
  double size_target = 0;  // s₀ of the last late phase, which those after it are held to as well
  double size_start = 1;   // s when that phase began
  RankStep step;           // of the last one
  RankState state;
  double unpacked = 0;    // entries that died since the last compaction
  std::int64_t gone = 0;  // layers that compactions have removed
  std::int64_t removed() const { return gone + static_cast<std::int64_t>(state.removed); }
};

// Pretraining or fine-tuning as a recipe says: phases of steps, evaluation, metrics, checkpoints, and
// resuming to the bit. In a job of several ranks each has its share of every step's packs, and all have the
// same model; only the first one writes the run's files.
class TrainingRun {
 public:
  TrainingRun(const Recipe& recipe, const TrainingOptions& options);
  ~TrainingRun();

  TrainingOutcome run();

  StepEngine& engine() { return *engine_; }
  const Communicator& communicator() const { return *communicator_; }
  const TrainingTask& task() const { return *task_; }
  const Recipe& recipe() const { return recipe_; }
  std::int64_t total_steps() const { return total_steps_; }
  // Whether there is nothing left to do.
  bool finished() const { return state_.step >= total_steps_; }

 private:
  struct PhaseData {
    data::LoaderOptions options;
    std::unique_ptr<data::Loader> loader;
    Schedule schedule;
  };

  // training_run_job.cpp
  std::unique_ptr<RunDirectory> open_directory(const std::filesystem::path& path) const;
  std::unique_ptr<std::FILE, CloseFile> open_log();
  std::optional<FoundCheckpoint> find_checkpoint() const;
  std::unique_ptr<Communicator> join_devices() const;
  Communicator* begin_job(const Recipe& recipe) const;
  bool sums_over_ranks() const { return of_devices_ != nullptr || !host_->alone(); }
  void say_place() const;
  void check_same_model();
  void share_step(double& targets, std::int64_t& tokens);
  void add_waiting(JsonObject& metrics);
  void write_metrics(std::int64_t step, const JsonObject& line);
  bool stop_wanted() const;

  TrainingOutcome train();
  void open_phase();
  std::unique_ptr<TrainingTask> make_task() const;
  void load_initial();
  data::LoaderOptions loader_options(std::int64_t phase) const;
  // Steps of the phase and of one epoch in it (0: nobody asks).
  std::pair<std::int64_t, std::int64_t> phase_steps(std::int64_t phase) const;
  bool ends_evaluation_epoch() const;
  // Whether the step that was just done is to be evaluated and has not been.
  bool evaluation_due() const;
  void keep_best() const;
  void one_step();
  std::string loss_note() const;
  void log_step(double seconds_per_step, double tokens_per_second);
  std::optional<Evaluation> evaluate_now(bool record);
  void save();
  void write_checkpoint();
  bool checkpoint_is_due() const;
  std::string last_checkpoint() const;
  void save_checkpoint_as(const std::filesystem::path& file);
  void write_state(CheckpointWriter& writer) const;
  data::Tokenizer load_tokenizer() const;
  void make_engine();
  Recipe recipe_to_keep() const;
  void resume_from(const FoundCheckpoint& found);

  // training_run_skips.cpp
  void skip_step(const data::LoaderPosition& before);
  std::string skipped_note() const;
  [[noreturn]] void stop_on_nonfinite(const data::LoaderPosition& before, const std::string& first);
  void refuse_to_save_nonfinite();
  [[noreturn]] void refuse_nonfinite(const std::string& reason);
  std::string learning_rate_key() const;
  std::string divergence() const;

  // training_run_ranks.cpp
  PhaseObjective objective_of(std::int64_t phase) const;
  double target_of(std::int64_t phase, const LayerRanks& ranks) const;
  void check_target(std::int64_t phase, const LayerRanks& ranks) const;
  void check_targets() const;
  void refuse_another_stage(const Recipe& before, const std::string& file) const;
  void take_rank_units(const CheckpointReader& reader);
  void begin_ranks();
  std::int64_t count_removed() const;
  void open_stage();
  void adapt_ranks();
  void warn_of_short_way() const;
  RankStep rank_step() const;
  void after_rank_step();
  void refuse_collapsed(const std::string& what);
  bool compaction_due() const;
  void compact_ranks();
  void close_stage();
  bool target_reached() const;
  void add_rank_metrics(JsonObject& metrics) const;
  void save_ranks(CheckpointWriter& writer) const;
  void load_ranks(const CheckpointReader& reader);

  TrainingOptions options_;
  Communicator* host_;  // of the processes
  std::unique_ptr<RunDirectory> directory_;
  std::unique_ptr<std::FILE, CloseFile> log_;  // of a rank that is not the first
  std::optional<FoundCheckpoint> found_;       // that a resumed run goes on from
  Recipe recipe_;
  LayerRanks asked_ranks_;  // by the recipe, before those of a checkpoint were taken
  data::Tokenizer tokenizer_;
  EncoderConfig config_;
  Processor processor_;
  std::unique_ptr<Communicator> of_devices_;
  Communicator* communicator_;  // of what holds the model: one of those before
  std::unique_ptr<TrainingTask> task_;
  std::unique_ptr<StepEngine> engine_;
  std::unique_ptr<CheckpointDirectory> checkpoints_;  // the first rank's
  std::unique_ptr<MetricsWriter> metrics_;
  std::unique_ptr<PhaseData> phase_;
  std::unique_ptr<ProgressBar> progress_;
  TrainingState state_;
  TrainingRanks ranks_;
  std::optional<data::LoaderPosition> position_;  // to seek to when the phase is opened
  std::vector<std::int64_t> steps_of_phase_, steps_per_epoch_;
  std::int64_t total_steps_ = 0;
  std::int64_t saved_samples_ = 0;  // per epoch, of the run that is resumed
  bool stop_agreed_ = false;        // a rank was asked to stop
  struct Waiting {                  // since the last line of metrics
    double sums_ms = 0;             // of the rank that came last
    double ranks_ms = 0;            // of a rank on average, for the last one to come
    std::int64_t steps = 0;
  } waiting_;
  bool save_agreed_ = false;  // the first rank wants the step that is done to be saved
  std::chrono::steady_clock::time_point saved_at_ = std::chrono::steady_clock::now();
  std::int64_t saved_step_ = -1;
  std::filesystem::path saved_path_;
};

}  // namespace comera
