#include "training/tasks/encoder_task.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/encoder_micro_batches.h"
#include "training/resume/checkpoint_tokenizer.h"
#include "training/run/phase.h"

namespace comera {

namespace {

class EncoderBatches final : public data::BatchStream {
 public:
  EncoderBatches(const EncoderTask& task, std::int64_t length, const data::LoaderOptions& options)
      : task_(task), loader_(task.answered_samples(length), options) {}

  MicroBatch next() override {
    const data::Batch& batch = loader_.next();
    return {.block = batch.block(), .targets = task_.targets(batch), .units = batch.tokens};
  }
  data::LoaderPosition position() const override { return loader_.position(); }
  void seek(const data::LoaderPosition& position) override { loader_.seek(position); }
  std::int64_t samples_per_epoch() const override { return loader_.samples_per_epoch(); }
  std::int64_t micro_batches_per_epoch() const override { return loader_.count_micro_batches_per_epoch(); }

 private:
  const EncoderTask& task_;
  data::Loader loader_;
};

}  // namespace

std::string EncoderTask::replace_words(double share, std::int64_t length) {
  constexpr std::int64_t looked_at = 1000;
  auto words = std::make_shared<const data::ReplaceableWords>(tokenizer_);
  const auto own = samples(length);
  data::Sample sample;
  std::int64_t tokens = 0, found = 0;
  for (std::int64_t i = 0; i < std::min(own->count(), looked_at); ++i) {
    own->read(i, sample);
    tokens += std::ssize(sample.ids);
    found += words->count_in(sample.ids);
  }
  if (found == 0)
    return "note: distillation.replaced_words has no effect, since the texts have no words of one piece";
  words_ = std::move(words);
  replaced_words_ = share;
  return fmt::format(
      "train: each text a second time with {:.3g} % of its words of one piece replaced ({:.0f} of 100 tokens "
      "are such words)",
      100 * share, 100 * static_cast<double>(found) / static_cast<double>(tokens));
}

std::unique_ptr<data::SampleSource> EncoderTask::answered_samples(std::int64_t length) const {
  auto samples = training_samples(length);
  return answers_ ? with_answers(std::move(samples), *answers_, form_->config()) : std::move(samples);
}

std::unique_ptr<data::SampleSource> EncoderTask::training_samples(std::int64_t length) const {
  auto own = samples(length);
  if (words_ == nullptr) return own;
  return std::make_unique<data::WithReplacedWords>(std::move(own), words_, replaced_words_);
}

data::LoaderOptions EncoderTask::options_of(const PhaseOf& phase) const {
  data::LoaderOptions options = loader_options(phase.recipe, phase.phase, *this, form_->model());
  if (phase.steps > 0) {
    if (draws_masks()) options.final_mask_probability = phase.section().final_mask_probability;
    options.steps = phase.steps;
  }
  return options;
}

std::unique_ptr<data::BatchStream> EncoderTask::batches(const PhaseOf& phase, const Communicator& processes,
                                                        bool ahead) const {
  data::LoaderOptions options = options_of(phase);
  options.process = processes.process();
  options.world_size = processes.world_size();
  if (!ahead) options.prefetch = 0;
  return std::make_unique<EncoderBatches>(*this, phase.section().length, options);
}

std::unique_ptr<PackLayout> EncoderTask::micro_batches(const PhaseOf& phase) const {
  return std::make_unique<EncoderMicroBatches>(form_->model(), options_of(phase).capacity, teacher());
}

Attributes EncoderTask::encoding() const {
  return {{"vocabulary", std::int64_t{tokenizer_.vocabulary()}}, {"tokenizer_hash", tokenizer_.hash()}};
}

void EncoderTask::save_encoding(CheckpointWriter& writer) const { save_tokenizer(writer, tokenizer_); }

void EncoderTask::write_encoding(const RunDirectory& directory) const {
  directory.write_tokenizer(tokenizer_.bytes());
}

std::optional<Evaluation> EncoderTask::evaluate(StepEngine& engine, const PhaseOf& phase,
                                                const std::function<bool()>& stop,
                                                Communicator& communicator) {
  return evaluate(engine, form_->model(), options_of(phase), phase.recipe.run.evaluation_batches, stop,
                  communicator);
}

data::LoaderOptions loader_options(const Recipe& recipe, std::int64_t phase, const EncoderTask& task,
                                   const Model& model) {
  const PhaseSection& section = recipe.phases[phase];
  data::LoaderOptions options;
  options.masking = task.masking();
  double share = options.masking.probability;
  if (task.draws_masks()) {
    // The capacity suffices for the targets of training, and of evaluation if there is one.
    const double evaluated = task.evaluates() ? share : 0;
    options.masking.probability = section.mask_probability.value_or(share);
    share = std::max(section.largest_mask_probability(share), evaluated);
  }
  // The number of targets varies more when whole words are masked.
  options.capacity = data::capacity_for(section.tokens_per_micro_batch, section.length, share,
                                        model.config().vocabulary, options.masking.words ? 4 : 1);
  if (section.sequences_per_micro_batch > 0) options.capacity.sequences = section.sequences_per_micro_batch;
  options.capacity.scores = model.config().scores_per_example(options.capacity.sequences);
  if (const KeptAnswers* answers = task.answers()) {
    options.capacity.taught_vectors = answers->vector_width();
    options.capacity.taught_logits = answers->logits();
  }
  make_room_for_targets(model.config().head, options.capacity);
  options.seed = order_seed(recipe.run.seed, phase);
  options.micro_batches_per_step = section.micro_batches_per_step;
  options.right_modulus = model.token_embedding().right_rows();
  return options;
}

}  // namespace comera
