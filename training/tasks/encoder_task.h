#pragma once

#include "data/batching/loader.h"
#include "data/tokenizers/tokenizer.h"
#include "model/model.h"
#include "training/tasks/model_form.h"
#include "training/tasks/training_task.h"

namespace comera {

// What an encoder learns from: sequences of tokens.
class EncoderTask : public TrainingTask {
 public:
  using TrainingTask::evaluate;

  // From now on it is for the model of this form, which must outlive it.
  void set_form(const EncoderForm& form) { form_ = &form; }

  // The training data as sequences of up to `length` tokens.
  virtual std::unique_ptr<data::SampleSource> samples(std::int64_t length) const = 0;
  // Of held-out data, and of training data in a phase without a share of its own.
  virtual data::MaskingOptions masking() const = 0;
  // What the gradient's sum is divided by.
  virtual std::int64_t targets(const data::Batch& batch) const = 0;
  // Of the engine's model, on held-out data; with `most_micro_batches`, on so many micro-batches of it (0:
  // all). Nothing if `stop` asks for an end. The processes share the micro-batches, and all get the whole's
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
};

// The micro-batches of a phase for one process alone. The model gives its vocabulary and the rows of its
// embedding's right half.
data::LoaderOptions loader_options(const Recipe& recipe, std::int64_t phase, const EncoderTask& task,
                                   const Model& model);

}  // namespace comera
