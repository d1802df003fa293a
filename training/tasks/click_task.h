#pragma once

#include <memory>
#include <vector>

#include "data/clicks/click_loader.h"
#include "data/clicks/click_scores.h"
#include "data/clicks/click_shards.h"
#include "training/tasks/model_form.h"
#include "training/tasks/training_task.h"

namespace comera {

// Click prediction on encoded logs: the model learns whether an example was clicked.
class ClickTask final : public TrainingTask {
 public:
  // Opens the shards of data.train and data.validation. Error if they were not made with the same encoding.
  explicit ClickTask(const DataSection& data);

  // The properties of the examples that the model depends on.
  const data::ClickShardInfo& info() const { return train_.info(); }

  // From now on it is for the model of this form, which must outlive it.
  void set_form(const DlrmForm& form) { form_ = &form; }

  // UsageError if the checkpoint's model was trained on ids that mean other values.
  void require_same_encoding(const CheckpointReader& checkpoint) const;

  const char* name() const override { return "clicks"; }
  const char* unit() const override { return "examples"; }
  std::string source() const override { return folder_; }
  std::string fingerprint() const override { return train_.fingerprint(); }
  std::string held_out_fingerprint() const override { return held_out_ ? held_out_->fingerprint() : ""; }
  std::vector<GivenFile> inputs() const override;
  std::unique_ptr<data::BatchStream> batches(const PhaseOf& phase, const Communicator& processes,
                                             bool ahead) const override;
  std::unique_ptr<PackLayout> micro_batches(const PhaseOf& phase) const override;
  Attributes encoding() const override { return {{"encoding", train_.info().encoding}}; }
  void write_encoding(const RunDirectory& directory) const override;
  bool evaluates() const override { return held_out_ != nullptr; }
  std::optional<Evaluation> evaluate(StepEngine& engine, const PhaseOf& phase,
                                     const std::function<bool()>& stop, Communicator& communicator) override;
  std::string describe(const Evaluation& evaluation) const override;
  Json metrics(const Evaluation& evaluation) const override;
  bool keeps_best() const override { return evaluates(); }

 private:
  data::ClickLoaderOptions options_of(const PhaseOf& phase) const;

  const DlrmForm* form_ = nullptr;
  std::string folder_, held_out_folder_;
  data::ClickShardSet train_;
  std::unique_ptr<data::ClickShardSet> held_out_;  // null without validation data
  DataOrder order_;
};

// Scores the engine's model on examples, in micro-batches of the engine's size; with `most_micro_batches`, on
// that many, drawn at random. The processes share the micro-batches, and each gets the overall result.
// Nothing if `stop` requests a stop.
std::optional<data::ClickScores> score_clicks(StepEngine& engine, const data::ClickShardSet& examples,
                                              const data::ClickLoaderOptions& micro_batches,
                                              std::int64_t most_micro_batches,
                                              const std::function<bool()>& stop, Communicator& communicator);

// Keys begin with the prefix: "validation_".
Json metrics_of(const data::ClickScores& scores, const std::string& prefix = "");

}  // namespace comera
