#pragma once

#include <optional>

#include "data/shards/sequence_set.h"
#include "data/tasks/baselines.h"
#include "data/tokenizers/text/words.h"
#include "recipes/recipe.h"
#include "training/tasks/encoder_task.h"

namespace comera {

// Of masked tokens of one source of several.
struct SourceEvaluation {
  std::string name;
  double loss = 0, accuracy = 0;
  std::int64_t targets = 0;
  data::Baselines baselines;
};

// Of an encoder that finds the tokens which its generator has replaced.
struct DetectionScores {
  double generator_loss = 0;  // per masked token, nats
  double loss = 0;            // per token, nats
  double accuracy = 0;        // share of tokens that are told right
  double replaced = 0;        // share that was replaced
  double found = 0;           // of these
};

// Evaluation::details of masked tokens.
struct MaskedLanguageDetails {
  std::optional<DetectionScores> detection;  // with a generator, whose accuracy Evaluation's is
  // What should be beaten on the very same targets; without targets if the training data are not at hand.
  data::Baselines baselines;
  // Of each source, if there are several: the whole's numbers are then the means by the sources' weights, or,
  // without weights, those of all targets.
  std::vector<SourceEvaluation> sources;
};

// Pretraining: masked tokens of shards, or of files of masked sequences.
class MaskedLanguageTask final : public EncoderTask {
 public:
  // Opens the shards. Error if they do not fit the tokenizer or the model. Without data.train or sources, it
  // can only evaluate and has no unigram baseline.
  MaskedLanguageTask(const DataSection& data, const data::Tokenizer& tokenizer, const EncoderConfig& config);

  const char* name() const override { return "pretrain"; }
  std::string source() const override;
  std::string fingerprint() const override { return train_->fingerprint(); }
  std::string held_out_fingerprint() const override;
  std::vector<GivenFile> inputs() const override;
  std::unique_ptr<data::SampleSource> samples(std::int64_t length) const override;
  data::MaskingOptions masking() const override;
  bool draws_masks() const override { return !train_ || !train_->masked(); }
  double targets(const data::Batch& batch) const override { return batch.masked; }
  using EncoderTask::evaluate;
  bool evaluates() const override { return !held_out_.empty(); }
  // The masks are the same in every evaluation with the same sequence length.
  std::optional<Evaluation> evaluate(StepEngine& engine, const Model& model,
                                     const data::LoaderOptions& options, std::int64_t most_micro_batches,
                                     const std::function<bool()>& stop, Communicator& communicator) override;
  std::string describe(const Evaluation& evaluation) const override;
  Json metrics(const Evaluation& evaluation) const override;
  // Advice if, after half of the steps, the loss is still within `plateau` nats of the unigram baseline.
  std::string advice(const Evaluation& evaluation, double done) const override;
  static constexpr double plateau = 0.1;
  // A better generator makes the discriminator's targets harder, so that its losses do not rank checkpoints.
  bool keeps_best() const override { return evaluates() && !weight_; }
  bool compares_lengths() const override { return false; }  // more context, easier targets

 private:
  struct HeldOut {
    std::string folder;
    std::unique_ptr<data::SequenceSet> set;
    std::string name = {};  // of its source
    double weight = 0;      // 0: its targets are not weighted
  };
  void open_held_out(const data::Tokenizer& tokenizer, const EncoderConfig& config);
  // Sums over one set; nothing if `stop` requests a stop.
  struct Sums;
  std::optional<Sums> evaluate(StepEngine& engine, const HeldOut& held_out,
                               const data::LoaderOptions& options, std::int64_t most_micro_batches,
                               const std::function<bool()>& stop) const;
  static DetectionScores detection_of(const std::vector<Sums>& sums);
  Evaluation evaluation_of(const std::vector<Sums>& sums) const;

  DataSection data_;
  bool learned_positions_ = false;
  std::optional<double> weight_;              // of the discriminator's loss; none without one
  std::vector<std::string> trained_on_;       // fingerprints of each source
  std::unique_ptr<data::SequenceSet> train_;  // null without training data
  std::vector<HeldOut> held_out_;
  std::shared_ptr<const data::WordTable> words_;  // null unless whole words are masked
  std::optional<data::UnigramModel> unigram_;     // created when first needed
};

}  // namespace comera
