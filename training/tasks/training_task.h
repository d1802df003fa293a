#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoints/checkpoint_file.h"
#include "data/batching/batch_stream.h"
#include "distributed/communicator.h"
#include "recipes/recipe.h"
#include "training/logging/json.h"
#include "training/run/process_agreement.h"
#include "training/run/run_directory.h"
#include "training/step/step_engine.h"
#include "training/tasks/evaluation.h"

namespace comera {

// What a training run learns from and is judged by: its data, what counts as a target, and its evaluation.
// Everything else (phases, steps, checkpoints, resuming) is TrainingRun's.
class TrainingTask {
 public:
  virtual ~TrainingTask() = default;

  // "pretrain", "finetune" or "clicks", for people.
  virtual const char* name() const = 0;
  // What speed is counted in: "tokens" or "examples".
  virtual const char* unit() const { return "tokens"; }
  // Where the training data lie, for messages, and 32 hexadecimal digits of what is in them.
  virtual std::string source() const = 0;
  virtual std::string fingerprint() const = 0;
  // Every file that it has read, with what is in it as far as it matters to the task.
  virtual std::vector<GivenFile> inputs() const = 0;
  // 32 hexadecimal digits of what is in the held-out data, by which the best model is chosen; empty without
  // such.
  virtual std::string held_out_fingerprint() const = 0;

  // A phase of the recipe.
  struct PhaseOf {
    const Recipe& recipe;
    std::int64_t phase = 0;

    const PhaseSection& section() const { return recipe.phases[static_cast<std::size_t>(phase)]; }
  };
  // The micro-batches of the training data that are this process's. `ahead`: whether a thread prepares them.
  virtual std::unique_ptr<data::BatchStream> batches(const PhaseOf& phase, const Communicator& processes,
                                                     bool ahead) const = 0;
  // Their size. The model must outlive them.
  virtual std::unique_ptr<PackLayout> micro_batches(const PhaseOf& phase) const = 0;

  // What a checkpoint says of how the data became numbers: attributes of /data, and what else is needed to
  // use the model.
  virtual Attributes encoding() const = 0;
  virtual void save_encoding(CheckpointWriter& /*writer*/) const {}
  // The same in the run's folder, so that the run stays usable without the data.
  virtual void write_encoding(const RunDirectory& directory) const = 0;

  virtual bool evaluates() const = 0;
  // Of the engine's model, on held-out data, in micro-batches of the phase; with run.evaluation_batches on so
  // many. Nothing if `stop` asks for an end. The processes share the micro-batches, and all get the whole's
  // result.
  virtual std::optional<Evaluation> evaluate(StepEngine& engine, const PhaseOf& phase,
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
