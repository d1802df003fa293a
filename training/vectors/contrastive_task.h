#pragma once

#include "training/tasks/file_task.h"
#include "training/vectors/vector_scores.h"

namespace comera {

// Whether a student of single texts is evaluated by held-out texts: how like the teacher's the cosines of its
// vectors are. Not where the recipe has scored pairs, which say more.
bool compares_with_teacher(const Recipe& recipe);

// The recipe with everything that a contrastive task determines filled in, and its head. UsageError for what
// contradicts itself. task: task_of() of the recipe.
Recipe resolve_contrastive(const Recipe& recipe, const data::Task& task);

// Fine-tuning for vectors that are near each other where texts belong together
// (model/layers/contrastive_head.h). The negatives of an example are the documents of its micro-batch,
// whatever the number of micro-batches in a step and of processes.
class ContrastiveTask final : public FileTask {
 public:
  // Reads all files; the recipe's task is resolved.
  ContrastiveTask(const Recipe& recipe, const data::Tokenizer& tokenizer, const EncoderConfig& config);

  std::string fingerprint() const override { return train_.fingerprint(); }
  std::unique_ptr<data::SampleSource> samples(std::int64_t length) const override;
  double targets(const data::Batch& batch) const override;
  using EncoderTask::evaluate;
  // score: the task's metric on the first set that has it.
  std::optional<Evaluation> evaluate(StepEngine& engine, const Model& model,
                                     const data::LoaderOptions& options, std::int64_t most_micro_batches,
                                     const std::function<bool()>& stop, Communicator& communicator) override;

  bool compares_with_teacher() const override { return compares_; }
  void compare_with(const Teacher& teacher, const Processor& processor, const std::function<bool()>& stop,
                    Communicator& processes) override;

  // What was read and what was left out: readable lines.
  std::vector<std::string> reports() const;

 private:
  std::int64_t texts() const { return std::ssize(task_.text); }
  std::vector<GivenFile> held_out() const override;

  EncoderConfig config_;
  bool pairs_;           // whether it learns from them, and not only from a teacher's vectors of each text
  bool compares_;        // held-out texts with the teacher's vectors
  std::int64_t length_;  // of the longest phase
  data::Examples train_;
  std::vector<VectorSet> sets_;
};

}  // namespace comera
