#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "checkpoints/checkpoint_directory.h"
#include "training/run/job.h"
#include "training/run/run_directory.h"

namespace comera {

// The checkpoints of a run: when they are due, the last one, and the best one. Process 0 writes them; all
// others make the same calls and wait.
class RunCheckpoints {
 public:
  using Write = std::function<void(CheckpointWriter&)>;

  // Directory and job must outlive this. keep: how many of the last ones are kept; minutes: the interval at
  // which the next one is due (0: never by time).
  RunCheckpoints(const RunDirectory& directory, Job& job, std::int64_t keep, double minutes);

  // Whether enough time has passed since the last one that the next is due.
  bool due() const;
  // Starts the clock: nothing is lost yet.
  void start_clock() { saved_at_ = std::chrono::steady_clock::now(); }

  // Saves the state after `step`. Error with a remedy if it cannot be written, or if the processes' models
  // differ; then the last checkpoint is kept.
  void save(std::int64_t step, const ParameterStore& model, const Write& write);
  // Saves a diverged model beside the checkpoints, under another name. Every process calls it.
  void save_aside(const std::filesystem::path& file, const Write& write) const;
  // Marks the last checkpoint, which must exist, as the best model so far. Every process calls it.
  void keep_best() const;
  // After resume(): the best model, that of step `best`, may belong to abandoned steps, or be gone. If
  // best.h5 is of another step, it is set aside, and that step's checkpoint, if it exists, becomes the best
  // model again; `log_line` is called for each of these. Returns whether there is a best model. Every process
  // calls it.
  bool restore_best(std::int64_t best, const std::function<void(const std::string&)>& log_line) const;
  // Keeps the last checkpoint, which must exist, permanently. Every process calls it.
  void keep_milestone() const;
  // Continues from this checkpoint; rejected ones are set aside and reported to `log_line`.
  void resume(const FoundCheckpoint& found, std::int64_t step,
              const std::function<void(const std::string&)>& log_line);

  bool any() const { return step_ >= 0; }
  bool has(std::int64_t step) const { return step_ == step; }
  const std::filesystem::path& last() const { return last_; }
  // "the last good checkpoint is ...", or that there is none: a part of a sentence.
  std::string last_text() const;

 private:
  std::string restored_best(std::int64_t best) const;  // a message about the changes; "": none

  const RunDirectory& directory_;
  Job& job_;
  std::unique_ptr<CheckpointDirectory> files_;  // on process 0
  double minutes_;
  std::chrono::steady_clock::time_point saved_at_ = std::chrono::steady_clock::now();
  std::int64_t step_ = -1;
  std::filesystem::path last_;
};

}  // namespace comera
