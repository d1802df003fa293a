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

// The checkpoints of a run: when they are due, which one is the last, and the best of them. The first process
// writes them; all others call the same and wait.
class RunCheckpoints {
 public:
  using Write = std::function<void(CheckpointWriter&)>;

  // Directory and job must outlive this. keep: how many of the last ones stay; minutes: after how many the
  // next one is due (0: never by time).
  RunCheckpoints(const RunDirectory& directory, Job& job, std::int64_t keep, double minutes);

  // Whether so much time has passed since the last one that no more may be lost.
  bool due() const;
  // From now on time counts: nothing is lost yet.
  void start_clock() { saved_at_ = std::chrono::steady_clock::now(); }

  // Of the state after `step`. Error with what to do if it cannot be written, or if the processes have not
  // the same model any more; the last one is kept then.
  void save(std::int64_t step, const ParameterStore& model, const Write& write);
  // Beside them, under a name of its own, for a model that went wrong. Every process calls it.
  void save_aside(const std::filesystem::path& file, const Write& write) const;
  // The last one, of which there must be one, is the best model so far. Every process calls it.
  void keep_best() const;
  // After resume(): the best model, that of step `best`, may be of steps that were given up, or gone. Another
  // step's is set aside and that step's checkpoint, if it is there, is the best model again, which `log_line`
  // is told. Whether there is one now. Every process calls it.
  bool restore_best(std::int64_t best, const std::function<void(const std::string&)>& log_line) const;
  // The last one, of which there must be one, is kept for good. Every process calls it.
  void keep_milestone() const;
  // The run goes on from this one; those that were refused are set aside, which `log_line` is told.
  void resume(const FoundCheckpoint& found, std::int64_t step,
              const std::function<void(const std::string&)>& log_line);

  bool any() const { return step_ >= 0; }
  bool has(std::int64_t step) const { return step_ == step; }
  const std::filesystem::path& last() const { return last_; }
  // "the last good checkpoint is ...", or that there is none: a part of a sentence.
  std::string last_text() const;

 private:
  std::string restored_best(std::int64_t best) const;  // what was done, to be told; "": nothing

  const RunDirectory& directory_;
  Job& job_;
  std::unique_ptr<CheckpointDirectory> files_;  // the first process's
  double minutes_;
  std::chrono::steady_clock::time_point saved_at_ = std::chrono::steady_clock::now();
  std::int64_t step_ = -1;
  std::filesystem::path last_;
};

}  // namespace comera
