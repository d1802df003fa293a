#pragma once

#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include "checkpoints/checkpoint_directory.h"
#include "data/tokenizers/tokenizer.h"
#include "distributed/communicator.h"
#include "kernels/ops/processor.h"
#include "recipes/recipe.h"
#include "training/run/run_directory.h"
#include "training/tasks/model_form.h"
#include "training/tasks/training_task.h"

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
  Communicator* communicator = nullptr;               // of a job with several processes; null: alone
};

// All that a run has before its model is made. The processes of a job make it together: all of them take
// each of the numbered steps of the constructor, in this order. Throws UsageError for what the user can mend,
// and Error; what a step compares between processes, all of them throw.
struct RunSetup {
  RunSetup(const Recipe& recipe, const TrainingOptions& options);
  RunSetup(const RunSetup&) = delete;  // the task refers to the tokenizer
  RunSetup& operator=(const RunSetup&) = delete;

  // The sums of what holds the model: NCCL's between GPUs, otherwise the host's.
  Communicator& device_communicator() const { return nccl ? *nccl : *host; }
  // Whether gradients are summed over processes. One process may do it by NCCL, to test that.
  bool sums_gradients() const { return nccl != nullptr || !host->alone(); }
  // A line for people about what is set up, in this process's log.
  void log_line(std::string_view line) const;

  struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  TrainingOptions options;       // `output` is the log's where there is one
  Communicator* host = nullptr;  // of the processes
  std::unique_ptr<RunDirectory> directory;
  std::unique_ptr<std::FILE, CloseFile> log;  // null: this process speaks to people
  std::optional<FoundCheckpoint> found;       // that a resumed run goes on from
  Recipe recipe;                              // with the ranks that layers have in the checkpoint
  LayerRanks asked_ranks;                     // those in the recipe as the user gave it
  std::optional<data::Tokenizer> tokenizer;   // of an encoder
  std::unique_ptr<ModelForm> form;
  std::optional<Processor> processor;
  std::unique_ptr<Communicator> nccl;
  std::unique_ptr<TrainingTask> task;

 private:
  const EncoderForm& set_encoder();
  void set_click_model();
};

}  // namespace comera
