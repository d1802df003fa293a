#pragma once

#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include "checkpoints/checkpoint_directory.h"
#include "data/tokenizers/tokenizer.h"
#include "distributed/communicator.h"
#include "distributed/nccl_communicator.h"
#include "kernels/ops/processor.h"
#include "recipes/recipe.h"
#include "training/run/process_agreement.h"
#include "training/run/run_directory.h"
#include "training/tasks/model_form.h"
#include "training/tasks/training_task.h"

namespace comera {

struct TrainingOptions {
  bool finetune = false;  // the recipe's [task] instead of masked language modelling
  RunMode mode = RunMode::fresh;
  ResumeMode resume = ResumeMode::newest;  // which checkpoint a resumed run may use
  std::int64_t stop_after = 0;  // save and stop after this step (counted over all phases); 0: never
  std::function<bool()> stop_requested = {};          // called after every step: save and stop
  std::function<void(std::int64_t)> after_step = {};  // for tests and observers
  std::FILE* output = stderr;                         // for progress
  const Processor* processor = nullptr;               // replaces the recipe's run.device
  Communicator* communicator = nullptr;               // of a job with several processes; null: single process
  decltype(&comera::start_nccl) start_nccl = comera::start_nccl;  // for tests: another one sums GPU memory
};

// State set up before the model is constructed. The processes of a job create it together: all execute each
// of the numbered steps of the constructor, in this order. Throws UsageError for what the user can correct,
// and Error; a failed comparison between processes is thrown by all of them.
struct RunSetup {
  RunSetup(const Recipe& recipe, const TrainingOptions& options);
  RunSetup(const RunSetup&) = delete;  // the task refers to the tokenizer
  RunSetup& operator=(const RunSetup&) = delete;

  // Sums memory where the model lies: NCCL's between GPUs, otherwise the host's.
  Communicator& device_communicator() const { return nccl ? *nccl : *host; }
  // Whether gradients are summed over processes. A single process may do so with NCCL, for tests.
  bool sums_gradients() const { return nccl != nullptr || !host->alone(); }
  // A line for people about what is set up, in this process's log.
  void log_line(std::string_view line) const;

  struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  TrainingOptions options;       // `output` is the log if there is one
  Communicator* host = nullptr;  // of the processes
  std::unique_ptr<RunDirectory> directory;
  std::unique_ptr<std::FILE, CloseFile> log;  // null: logs go to the terminal
  std::optional<FoundCheckpoint> found;       // that a resumed run continues from
  Recipe recipe;                              // with the ranks of the layers in the checkpoint
  const Recipe given;                         // as the user gave it
  std::optional<data::Tokenizer> tokenizer;   // for an encoder
  std::unique_ptr<ModelForm> form;
  std::optional<Processor> processor;
  std::unique_ptr<Communicator> nccl;
  std::unique_ptr<TrainingTask> task;
  std::optional<GivenFile> teacher;  // the file it was read from

 private:
  const EncoderForm& set_encoder();
  void set_click_model();
};

}  // namespace comera
