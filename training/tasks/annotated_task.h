#pragma once

#include "data/annotations/annotated_examples.h"
#include "recipes/recipe.h"
#include "training/inference/inference_engine.h"
#include "training/tasks/file_task.h"

namespace comera {

// The capacity for inference: logits are computed at every position.
MicroBatchCapacity capacity_to_ask(MicroBatchCapacity capacity);

// A model's values for examples (data/annotations/annotated_examples.h), which the processes share; infinite
// or not a number where its outputs are. Nothing if `stop` requests a stop. The engine gives logits.
std::optional<std::vector<double>> annotate(InferenceEngine& engine, const data::AnnotatedExamples& examples,
                                            const MicroBatchCapacity& capacity, std::int64_t types,
                                            const std::function<bool()>& stop = {},
                                            Communicator& communicator = one_process());

// The scores of these values; unknown ones where they are not finite.
data::TaskScores scores_of(const data::AnnotatedExamples& examples, data::TaskKind kind,
                           const std::vector<double>& values, const std::string& set);

// Fine-tuning: labels of words, or answers within a text.
class AnnotatedTask final : public FileTask {
 public:
  // Reads all files; `section` is resolved. length: of the longest phase.
  AnnotatedTask(const TaskSection& section, const data::Tokenizer& tokenizer, const EncoderConfig& config,
                std::int64_t length);

  std::string fingerprint() const override { return train_->fingerprint(); }
  // length: not less than that of the longest phase, since texts were divided by that.
  std::unique_ptr<data::SampleSource> samples(std::int64_t length) const override;
  double targets(const data::Batch& batch) const override { return batch.masked; }
  using EncoderTask::evaluate;
  // score: the task's metric on the first set.
  std::optional<Evaluation> evaluate(StepEngine& engine, const Model& model,
                                     const data::LoaderOptions& options, std::int64_t most_micro_batches,
                                     const std::function<bool()>& stop, Communicator& communicator) override;
  std::vector<std::string> reports() const;

 private:
  std::vector<GivenFile> held_out() const override;

  data::TaskMetric metric_;
  std::int64_t types_, length_;
  std::unique_ptr<data::AnnotatedExamples> train_;
  std::vector<std::unique_ptr<data::AnnotatedExamples>> validation_;
};

}  // namespace comera
