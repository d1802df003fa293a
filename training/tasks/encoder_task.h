#pragma once

#include "data/batching/loader.h"
#include "data/masking/replaced_words.h"
#include "data/tokenizers/tokenizer.h"
#include "model/model.h"
#include "training/distillation/kept_answers.h"
#include "training/distillation/trained_teacher.h"
#include "training/tasks/model_form.h"
#include "training/tasks/training_task.h"

namespace comera {

// A training task of an encoder, whose examples are sequences of tokens.
class EncoderTask : public TrainingTask {
 public:
  using TrainingTask::evaluate;

  // From now on it is for the model of this form, which must outlive it.
  void set_form(const EncoderForm& form) { form_ = &form; }
  // From now on its micro-batches are also answered by this teacher; null: by none.
  void set_teacher(std::unique_ptr<TrainedTeacher> teacher) { teacher_ = std::move(teacher); }
  Teacher* teacher() const { return teacher_ ? &teacher_->teacher() : nullptr; }
  // Whether it compares its model's vectors of held-out texts with a teacher's; and takes these, before the
  // first evaluation, of files that all processes have.
  virtual bool compares_with_teacher() const { return false; }
  virtual void compare_with(const Teacher& /*teacher*/, const Processor& /*processor*/,
                            const std::function<bool()>& /*stop*/, Communicator& /*processes*/) {}
  // From now on its training samples come with a teacher's answers; null: without.
  void set_answers(std::unique_ptr<const KeptAnswers> answers) { answers_ = std::move(answers); }
  const KeptAnswers* answers() const { return answers_.get(); }
  // From now on each training sample comes a second time with this share of its words replaced, unless the
  // first ones have none. Returns a line that says so.
  std::string replace_words(double share, std::int64_t length);

  // The training data as sequences of up to `length` tokens.
  virtual std::unique_ptr<data::SampleSource> samples(std::int64_t length) const = 0;
  // The same, and behind each what replace_words() adds.
  std::unique_ptr<data::SampleSource> training_samples(std::int64_t length) const;
  // The same with the answers that are kept.
  std::unique_ptr<data::SampleSource> answered_samples(std::int64_t length) const;
  // For held-out data, and for training data in phases without their own share of masks.
  virtual data::MaskingOptions masking() const = 0;
  // Whether training draws masks, so that the shares of phases have an effect.
  virtual bool draws_masks() const { return masking().probability > 0; }
  // The divisor of the summed gradient.
  virtual double targets(const data::Batch& batch) const = 0;
  // What the loss is measured by where losses are compared: a nat, or the variance of a regression's scores.
  virtual double loss_unit() const { return 1; }
  // Evaluates the engine's model on held-out data; with `most_micro_batches`, on that many micro-batches (0:
  // all). Nothing if `stop` requests a stop. The processes share the micro-batches, and each gets the overall
  // result.
  virtual std::optional<Evaluation> evaluate(StepEngine& engine, const Model& model,
                                             const data::LoaderOptions& options,
                                             std::int64_t most_micro_batches,
                                             const std::function<bool()>& stop,
                                             Communicator& communicator) = 0;

  std::unique_ptr<data::BatchStream> batches(const PhaseOf& phase, const Communicator& processes,
                                             bool ahead) const final;
  std::unique_ptr<PackLayout> micro_batches(const PhaseOf& phase) const final;
  Attributes encoding() const final;
  void save_encoding(CheckpointWriter& writer) const final;
  void write_encoding(const RunDirectory& directory) const final;
  std::optional<Evaluation> evaluate(StepEngine& engine, const PhaseOf& phase,
                                     const std::function<bool()>& stop, Communicator& communicator) final;

 protected:
  // The tokenizer must outlive this.
  explicit EncoderTask(const data::Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

 private:
  data::LoaderOptions options_of(const PhaseOf& phase) const;

  const data::Tokenizer& tokenizer_;
  const EncoderForm* form_ = nullptr;
  std::unique_ptr<TrainedTeacher> teacher_;
  std::unique_ptr<const KeptAnswers> answers_;
  std::shared_ptr<const data::ReplaceableWords> words_;  // null: none are replaced
  double replaced_words_ = 0;
};

// The micro-batches of a phase for a single process, with the share of masks of its first step. The model
// determines the vocabulary and the right rows of its embedding.
data::LoaderOptions loader_options(const Recipe& recipe, std::int64_t phase, const EncoderTask& task,
                                   const Model& model);

}  // namespace comera
