#include "training/masked_language_task.h"

#include <nlohmann/json.hpp>

#include <cmath>

#include "data/samples.h"
#include "training/phase.h"

namespace comera {

namespace {
constexpr std::int64_t evaluation_seed = 20251;  // of masks: whatever the run's seed, phase and step
const std::int64_t cache_bytes = data::LoaderOptions().cache_bytes;
}  // namespace

MaskedLanguageTask::MaskedLanguageTask(const DataSection& data, const data::Tokenizer& tokenizer,
                                       const EncoderConfig& config)
    : data_(data), learned_positions_(config.positions == Positions::learned) {
  const auto check_targets = [&](const data::SequenceSet& set, const std::string& folder) {
    COMERA_CHECK(set.has_targets(), "{}: there is nothing to predict in it: {}; give other data", folder,
                 set.masked() ? "no row of its files has a target in masked_lm_positions"
                              : "it holds no pieces but unknown and special ones");
  };
  if (data.whole_word_masking) words_ = std::make_shared<const data::WordTable>(tokenizer);
  if (!data.train.empty()) {
    train_ = data::open_sequences(data.train, "train", tokenizer, data.targets);
    train_->check_types(static_cast<std::int32_t>(config.types));
    if (words_ && train_->masked())
      throw UsageError(fmt::format(
          "data.whole_word_masking cannot be had with the targets of {}; set data.targets to \"dynamic\"",
          data.train));
  }
  if (train_) check_targets(*train_, data.train);
  if (data.validation.empty()) return;
  held_out_ = data::open_sequences(data.validation, "validation", tokenizer, data.targets);
  held_out_->check_types(static_cast<std::int32_t>(config.types));
  check_targets(*held_out_, data.validation);
  COMERA_CHECK(!train_ || held_out_->fingerprint() != train_->fingerprint(),
               "{}: the held-out data are the training data; give data.validation others", data.validation);
}

void MaskedLanguageTask::require_masks_to_draw(const std::vector<PhaseSection>& phases) const {
  if (train_ && train_->masked())
    refuse_mask_probability(phases,
                            fmt::format("changes nothing, for {} has targets of its own", data_.train));
}

std::vector<GivenFile> MaskedLanguageTask::inputs() const {
  std::vector<GivenFile> inputs;
  const auto add = [&](const char* key, const std::string& folder, const data::SequenceSet* set) {
    if (set == nullptr) return;
    for (const data::FileFingerprint& file : set->files())
      inputs.push_back({key, (std::filesystem::path(folder) / file.name).string(), file.content});
  };
  add("data.train", data_.train, train_.get());
  add("data.validation", data_.validation, held_out_.get());
  return inputs;
}

std::unique_ptr<data::SampleSource> MaskedLanguageTask::samples(std::int64_t length) const {
  return train_->samples(length, cache_bytes);
}

data::MaskingOptions MaskedLanguageTask::masking() const {
  return {.probability = data_.mask_probability,
          .replace_mask = data_.replace_share,
          .replace_random = data_.random_share,
          .words = words_};
}

std::optional<Evaluation> MaskedLanguageTask::evaluate(StepEngine& engine, const Model& /*model*/,
                                                       const data::LoaderOptions& training,
                                                       std::int64_t most_packs,
                                                       const std::function<bool()>& stop,
                                                       Communicator& communicator) {
  if (train_ && !unigram_) unigram_.emplace(*train_);
  data::LoaderOptions options = training;
  options.masking = masking();
  options.seed = evaluation_seed;
  options.one_pass = true;
  options.permuted = most_packs > 0;  // the first packs are then a fair sample
  options.packs_per_step = options.world_size = communicator.world_size();
  options.process = communicator.process();
  data::Loader loader(held_out_->samples(options.capacity.longest, cache_bytes), options);
  Evaluation evaluation;
  engine.clear_results();
  bool stopped = false;
  for (std::int64_t pack = options.process; most_packs == 0 || pack < most_packs;
       pack += options.world_size) {
    const data::Batch* batch = loader.try_next();
    if (batch == nullptr) break;
    stopped = stop && stop();
    if (stopped) break;
    engine.load(batch->block());
    engine.evaluate();
    if (unigram_) data::add_to_baselines(*unigram_, *batch, evaluation.baselines);
  }
  const StepResults own = engine.results();
  engine.clear_results();
  data::Baselines& baselines = evaluation.baselines;
  const auto known = static_cast<double>(baselines.targets);
  double all[] = {own.loss_sum, own.target_count, own.correct, baselines.unigram * known,
                  known,        stopped ? 1. : 0.};
  communicator.sum(all);
  const auto& [loss, targets, correct, unigram, unigram_targets, stops] = all;
  if (stops > 0) return std::nullopt;
  evaluation.targets = static_cast<std::int64_t>(targets);
  COMERA_CHECK(evaluation.targets > 0,
               "the held-out set has no targets to evaluate; give more held-out data");
  evaluation.loss = loss / targets;
  evaluation.accuracy = correct / targets;
  evaluation.score = -evaluation.loss;
  if (unigram_)
    baselines = {.uniform = std::log(static_cast<double>(unigram_->vocabulary())),
                 .unigram = unigram_targets > 0 ? unigram / unigram_targets : 0,
                 .targets = static_cast<std::int64_t>(unigram_targets)};
  return evaluation;
}

std::string MaskedLanguageTask::describe(const Evaluation& e) const {
  if (!std::isfinite(e.loss)) return "the held-out loss is not finite";
  std::string text = fmt::format("held-out loss {:.4f}, masked accuracy {:.2f} %", e.loss, 100 * e.accuracy);
  if (e.baselines.targets > 0)
    text += fmt::format(" (unigram {:.4f}, uniform {:.4f})", e.baselines.unigram, e.baselines.uniform);
  return text;
}

std::string MaskedLanguageTask::advice(const Evaluation& e, double done) const {
  const bool stays = e.baselines.targets > 0 && e.loss >= e.baselines.unigram - plateau;
  if (done < 0.5 || !std::isfinite(e.loss) || !stays) return {};
  return fmt::format(
      "after {:.0f} % of the steps the model knows little more than how often each token occurs, and may "
      "stay "
      "there: {}halve the learning rates, or let comera pretrain --find-rate find them",
      100 * done,
      learned_positions_
          ? "begin anew with model.positions = \"relative\", with which models leave that loss "
            "early, or "
          : "");
}

Json MaskedLanguageTask::metrics(const Evaluation& e) const {
  Json values = Json::object();
  set_if_finite(values, "validation_loss", e.loss);
  values["validation_accuracy"] = e.accuracy;
  values["validation_targets"] = e.targets;
  if (e.baselines.targets > 0) {
    values["unigram_loss"] = e.baselines.unigram;
    values["uniform_loss"] = e.baselines.uniform;
  }
  return values;
}

}  // namespace comera
