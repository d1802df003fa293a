#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "data/loader.h"
#include "distributed/communicator.h"
#include "model/model.h"
#include "training/evaluation.h"
#include "training/json.h"
#include "training/process_agreement.h"
#include "training/step_engine.h"

namespace comera {

// What a training run learns from and is judged by: its data, what counts as a target, and its evaluation.
// Everything else (phases, steps, checkpoints, resuming) is TrainingRun's.
class TrainingTask {
 public:
  virtual ~TrainingTask() = default;

  // "pretrain" or "finetune", for people.
  virtual const char* name() const = 0;
  // Where the training data lie, for messages, and 32 hexadecimal digits of what is in them.
  virtual std::string source() const = 0;
  virtual std::string fingerprint() const = 0;

  // Every file that it has read, with what is in it as far as it matters to the task.
  virtual std::vector<GivenFile> inputs() const = 0;
  // The training data as sequences of up to `length` tokens.
  virtual std::unique_ptr<data::SampleSource> samples(std::int64_t length) const = 0;
  // Of held-out data, and of training data in a phase without a share of its own.
  virtual data::MaskingOptions masking() const = 0;
  // What the gradient's sum is divided by.
  virtual std::int64_t targets(const data::Batch& batch) const = 0;

  virtual bool evaluates() const = 0;
  // Of the engine's model, on held-out data; with `most_packs`, on so many packs of it (0: all). Nothing if
  // `stop` asks for an end. The processes share the packs, and all get the whole's result.
  virtual std::optional<Evaluation> evaluate(StepEngine& engine, const Model& model,
                                             const data::LoaderOptions& options, std::int64_t most_packs,
                                             const std::function<bool()>& stop,
                                             Communicator& communicator) = 0;
  // For people, one line or more without a line end at the last; and for metrics.jsonl.
  virtual std::string describe(const Evaluation& evaluation) const = 0;
  virtual Json metrics(const Evaluation& evaluation) const = 0;
  // A line for people whose model has learnt nothing that counts by then: what to change. `done`: share of
  // all steps. Empty if there is nothing to say.
  virtual std::string advice(const Evaluation& /*evaluation*/, double /*done*/) const { return {}; }
  // Whether the best model by Evaluation::score is kept besides the last ones.
  virtual bool keeps_best() const = 0;
  // Whether scores at different sequence lengths compare.
  virtual bool compares_lengths() const { return true; }
};

}  // namespace comera
