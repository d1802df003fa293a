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

// A training run's objective: its data, its targets, and its evaluation. Everything else (phases, steps,
// checkpoints, resuming) belongs to TrainingRun.
class TrainingTask {
 public:
  virtual ~TrainingTask() = default;

  // "pretrain", "finetune" or "clicks", for display.
  virtual const char* name() const = 0;
  // The unit of speed: "tokens" or "examples".
  virtual const char* unit() const { return "tokens"; }
  // The location of the training data, for messages, and 32 hexadecimal digits of their content.
  virtual std::string source() const = 0;
  virtual std::string fingerprint() const = 0;
  // Every file that was read, with a fingerprint of the content that matters to the task.
  virtual std::vector<GivenFile> inputs() const = 0;
  // 32 hexadecimal digits of the held-out data, which select the best model; empty without such data.
  virtual std::string held_out_fingerprint() const = 0;

  // A phase of the recipe.
  struct PhaseOf {
    const Recipe& recipe;
    std::int64_t phase = 0;
    std::int64_t steps = 0;  // of the phase; 0: not known yet

    const PhaseSection& section() const { return recipe.phases[static_cast<std::size_t>(phase)]; }
  };
  // This process's micro-batches of the training data. `ahead`: whether a thread prepares them.
  virtual std::unique_ptr<data::BatchStream> batches(const PhaseOf& phase, const Communicator& processes,
                                                     bool ahead) const = 0;
  // Their size. The model must outlive them.
  virtual std::unique_ptr<PackLayout> micro_batches(const PhaseOf& phase) const = 0;

  // A checkpoint's record of how the data were encoded: attributes of /data, and what else is needed to use
  // the model.
  virtual Attributes encoding() const = 0;
  virtual void save_encoding(CheckpointWriter& /*writer*/) const {}
  // Writes the same to the run's folder, so that the run stays usable without the data.
  virtual void write_encoding(const RunDirectory& directory) const = 0;

  // What the engine's losses are multiplied by for display: the variance by which a regression's scores are
  // standardised.
  virtual double loss_scale() const { return 1; }

  virtual bool evaluates() const = 0;
  // Evaluates the engine's model on held-out data, in micro-batches of the phase; with
  // run.evaluation_batches, on that many. Nothing if `stop` requests a stop. The processes share the
  // micro-batches, and each gets the overall result.
  virtual std::optional<Evaluation> evaluate(StepEngine& engine, const PhaseOf& phase,
                                             const std::function<bool()>& stop,
                                             Communicator& communicator) = 0;
  // As readable text, one or more lines without a final line end; and for metrics.jsonl.
  virtual std::string describe(const Evaluation& evaluation) const = 0;
  virtual Json metrics(const Evaluation& evaluation) const = 0;
  // Advice for a user whose model has made no useful progress by then: what to change. `done`: share of all
  // steps. Empty if there is no advice.
  virtual std::string advice(const Evaluation& /*evaluation*/, double /*done*/) const { return {}; }
  // Whether the best model by Evaluation::score is kept besides the last ones.
  virtual bool keeps_best() const = 0;
  // Whether scores at different sequence lengths are comparable.
  virtual bool compares_lengths() const { return true; }
};

}  // namespace comera
