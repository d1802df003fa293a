#pragma once

#include "data/tasks/scores.h"
#include "data/tasks/task.h"
#include "training/tasks/encoder_task.h"

namespace comera {

// A fine-tuning task on files: rows to learn, and held-out sets that are scored one by one.
// Evaluation::details has std::vector<data::TaskScores>, a member for each set.
class FileTask : public EncoderTask {
 public:
  const char* name() const final { return "finetune"; }
  std::string source() const final;
  std::string held_out_fingerprint() const final;
  std::vector<GivenFile> inputs() const override;
  data::MaskingOptions masking() const final { return {.probability = 0}; }
  bool evaluates() const final { return !held_out().empty(); }
  bool keeps_best() const final { return evaluates(); }
  std::string describe(const Evaluation& evaluation) const final;
  Json metrics(const Evaluation& evaluation) const final;

  const data::Task& task() const { return task_; }

 protected:
  FileTask(data::Task task, const data::Tokenizer& tokenizer)
      : EncoderTask(tokenizer), task_(std::move(task)) {}

  // The file of each held-out set.
  virtual std::vector<GivenFile> held_out() const = 0;
  // Of the scores of each set; everything but `score` is that of the first one.
  static Evaluation evaluation_of(std::vector<data::TaskScores> sets, double score);

  data::Task task_;
};

}  // namespace comera
