#include "training/tasks/masked_language_task.h"

#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

#include "data/shards/mixed_sequences.h"
#include "data/shards/samples.h"
#include "training/run/phase.h"

namespace comera {

namespace {
constexpr std::int64_t evaluation_seed = 20251;  // for masks: independent of the run's seed, phase and step
const std::int64_t cache_bytes = data::LoaderOptions().cache_bytes;

std::unique_ptr<data::SequenceSet> open(const std::string& folder, const char* split,
                                        const data::Tokenizer& tokenizer, const DataSection& data,
                                        const EncoderConfig& config) {
  auto set = data::open_sequences(folder, split, tokenizer, data.targets);
  set->check_types(static_cast<std::int32_t>(config.types));
  COMERA_CHECK(set->has_targets(), "{}: has nothing to predict: {}; give other data", folder,
               set->masked() ? "no row of its files has a target in masked_lm_positions"
                             : "it holds only unknown and special pieces");
  return set;
}

}  // namespace

MaskedLanguageTask::MaskedLanguageTask(const DataSection& data, const data::Tokenizer& tokenizer,
                                       const EncoderConfig& config)
    : EncoderTask(tokenizer), data_(data), learned_positions_(config.positions == Positions::learned) {
  if (config.head == HeadKind::replaced_tokens) weight_ = config.generator.weight;
  if (data.whole_word_masking) words_ = std::make_shared<const data::WordTable>(tokenizer);
  if (!data.train.empty()) {
    train_ = open(data.train, "train", tokenizer, data, config);
    trained_on_.push_back(train_->fingerprint());
  } else if (!data.sources.empty()) {
    std::vector<data::MixedPart> parts;
    for (const DataSource& source : data.sources) {
      parts.push_back({source.folder, open(source.folder, "train", tokenizer, data, config), source.weight});
      trained_on_.push_back(parts.back().set->fingerprint());
    }
    train_ = data::mix(std::move(parts));
  }
  if (words_ && train_ && train_->masked())
    throw UsageError(fmt::format(
        "data.whole_word_masking does not work with the targets of {}; set data.targets to \"dynamic\"",
        source()));
  open_held_out(tokenizer, config);
}

void MaskedLanguageTask::open_held_out(const data::Tokenizer& tokenizer, const EncoderConfig& config) {
  const auto add = [&](const std::string& folder, const std::string& name, double weight) {
    auto set = open(folder, "validation", tokenizer, data_, config);
    COMERA_CHECK(std::ranges::find(trained_on_, set->fingerprint()) == trained_on_.end(),
                 "{}: the held-out data equal the training data; set data.validation to other data", folder);
    held_out_.push_back({folder, std::move(set), name, weight});
  };
  if (!data_.validation.empty()) return add(data_.validation, "", 0);
  // A source without a held-out part is not evaluated.
  for (const DataSource& source : data_.sources)
    if (data::has_held_out(source.folder)) add(source.folder, source.name(), source.weight.value_or(0));
}

std::string MaskedLanguageTask::source() const {
  if (data_.sources.empty()) return data_.train;
  std::vector<std::string> folders;
  for (const DataSource& source : data_.sources) folders.push_back(source.folder);
  return fmt::format("{}", fmt::join(folders, ", "));
}

std::string MaskedLanguageTask::held_out_fingerprint() const {
  std::vector<std::string> contents;
  for (const HeldOut& held_out : held_out_) contents.push_back(held_out.set->fingerprint());
  return fingerprint_of_all(contents);
}

std::vector<GivenFile> MaskedLanguageTask::inputs() const {
  std::vector<GivenFile> inputs;
  const auto add = [&](const std::string& key, const std::string& folder, const data::SequenceSet& set) {
    for (const data::FileFingerprint& file : set.files())
      inputs.push_back({key, (std::filesystem::path(folder) / file.name).string(), file.content});
  };
  if (data_.sources.empty() && train_) add("data.train", data_.train, *train_);
  // The files of a mixture are in the order of its sources.
  if (!data_.sources.empty())
    for (const data::FileFingerprint& file : train_->files())
      inputs.push_back({"data.source", file.name, file.content});
  for (const HeldOut& held_out : held_out_)
    add(held_out.name.empty() ? "data.validation" : "data.source", held_out.folder, *held_out.set);
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

// The sums over one set's micro-batches.
struct MaskedLanguageTask::Sums {
  double loss = 0, targets = 0, correct = 0;
  double unigram = 0, unigram_targets = 0;
  DetectionResults detection;
  static constexpr std::size_t numbers = 11;
};

std::optional<MaskedLanguageTask::Sums> MaskedLanguageTask::evaluate(
    StepEngine& engine, const HeldOut& held_out, const data::LoaderOptions& options,
    std::int64_t most_micro_batches, const std::function<bool()>& stop) const {
  data::Loader loader(held_out.set->samples(options.capacity.longest, cache_bytes), options);
  data::Baselines baselines;
  engine.clear_results();
  for (std::int64_t micro_batch = options.process;
       most_micro_batches == 0 || micro_batch < most_micro_batches; micro_batch += options.world_size) {
    const data::Batch* batch = loader.try_next();
    if (batch == nullptr) break;
    if (stop && stop()) return std::nullopt;
    engine.load(batch->block());
    engine.evaluate(weight_ ? micro_batch : 0);
    if (unigram_) data::add_to_baselines(*unigram_, *batch, baselines);
  }
  const StepResults results = engine.results();
  const auto known = static_cast<double>(baselines.targets);
  return Sums{results.loss_sum, results.target_count, results.correct, baselines.unigram * known, known,
              results.detection};
}

std::optional<Evaluation> MaskedLanguageTask::evaluate(StepEngine& engine, const Model& /*model*/,
                                                       const data::LoaderOptions& training,
                                                       std::int64_t most_micro_batches,
                                                       const std::function<bool()>& stop,
                                                       Communicator& communicator) {
  if (train_ && !unigram_ && !weight_) unigram_.emplace(*train_);
  data::LoaderOptions options = training;
  options.masking = masking();
  options.final_mask_probability.reset();
  options.seed = evaluation_seed;
  options.one_pass = true;
  options.permuted = most_micro_batches > 0;  // the first micro-batches are then a fair sample
  options.micro_batches_per_step = options.world_size = communicator.world_size();
  options.process = communicator.process();
  bool stopped = false;
  std::vector<Sums> sums(held_out_.size());
  for (std::size_t i = 0; i < sums.size() && !stopped; ++i) {
    const std::optional<Sums> own = evaluate(engine, held_out_[i], options, most_micro_batches, stop);
    stopped = !own;
    if (own) sums[i] = *own;
  }
  engine.clear_results();
  static_assert(sizeof(Sums) == Sums::numbers * sizeof(double));
  communicator.sum({&sums[0].loss, Sums::numbers * sums.size()});
  double stops = stopped ? 1 : 0;
  communicator.sum({&stops, 1});
  if (stops > 0) return std::nullopt;
  return evaluation_of(sums);
}

// Over all sources, without their weights.
DetectionScores MaskedLanguageTask::detection_of(const std::vector<Sums>& sums) {
  double masked = 0, generator = 0;
  DetectionScores scores;
  double tokens = 0, replaced = 0;
  for (const Sums& sum : sums) {
    const DetectionResults& of = sum.detection;
    masked += sum.targets;
    generator += sum.loss - of.weighed;
    tokens += of.tokens;
    replaced += of.replaced;
    scores.loss += of.loss_sum;
    scores.accuracy += of.correct;
    scores.found += of.found;
  }
  scores.generator_loss = generator / masked;
  scores.loss /= tokens;
  scores.accuracy /= tokens;
  scores.replaced = replaced / tokens;
  scores.found /= std::max(replaced, 1.0);
  return scores;
}

Evaluation MaskedLanguageTask::evaluation_of(const std::vector<Sums>& sums) const {
  const double uniform = unigram_ ? std::log(static_cast<double>(unigram_->vocabulary())) : 0;
  Evaluation all;
  MaskedLanguageDetails details;
  double weights = 0, unigram_targets = 0;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const Sums& sum = sums[i];
    const HeldOut& held_out = held_out_[i];
    COMERA_CHECK(sum.targets > 0, "{}: the held-out set has no targets to evaluate; give more held-out data",
                 held_out.folder);
    SourceEvaluation own{.name = held_out.name,
                         .loss = sum.loss / sum.targets,
                         .accuracy = sum.correct / sum.targets,
                         .targets = static_cast<std::int64_t>(sum.targets),
                         .baselines = {}};
    if (unigram_)
      own.baselines = {uniform, sum.unigram_targets > 0 ? sum.unigram / sum.unigram_targets : 0,
                       static_cast<std::int64_t>(sum.unigram_targets)};
    const double weight = held_out.weight > 0 ? held_out.weight : sum.targets;
    weights += weight;
    all.loss += weight * own.loss;
    all.accuracy += weight * own.accuracy;
    details.baselines.unigram += weight * own.baselines.unigram;
    all.targets += own.targets;
    unigram_targets += sum.unigram_targets;
    if (!held_out.name.empty()) details.sources.push_back(std::move(own));
  }
  all.loss /= weights;
  all.accuracy /= weights;
  all.score = -all.loss;
  details.baselines = {uniform, details.baselines.unigram / weights,
                       static_cast<std::int64_t>(unigram_targets)};
  if (weight_) details.detection = detection_of(sums);
  all.details = std::move(details);
  return all;
}

std::string MaskedLanguageTask::describe(const Evaluation& e) const {
  if (!std::isfinite(e.loss)) return "the held-out loss is not finite";
  std::string text = fmt::format("held-out loss {:.4f}, masked accuracy {:.2f} %", e.loss, 100 * e.accuracy);
  const auto& [detection, baselines, sources] = e.details_as<MaskedLanguageDetails>();
  if (detection)
    text += fmt::format(
        "; generator's loss {:.4f}; {:.1f} % of the {:.1f} % replaced tokens found, loss {:.4f}",
        detection->generator_loss, 100 * detection->found, 100 * detection->replaced, detection->loss);
  if (baselines.targets > 0)
    text += fmt::format(" (unigram {:.4f}, uniform {:.4f})", baselines.unigram, baselines.uniform);
  for (const SourceEvaluation& source : sources)
    text += fmt::format("{}{} {:.4f}", &source == sources.data() ? "; " : ", ", source.name, source.loss);
  return text;
}

std::string MaskedLanguageTask::advice(const Evaluation& e, double done) const {
  const data::Baselines& baselines = e.details_as<MaskedLanguageDetails>().baselines;
  const bool stays = baselines.targets > 0 && e.loss >= baselines.unigram - plateau;
  if (done < 0.5 || !std::isfinite(e.loss) || !stays) return {};
  return fmt::format(
      "{}: {}halve the learning rates, or find better ones with comera pretrain --find-rate",
      done < 1 ? fmt::format("after {:.0f} % of the steps the loss is not clearly below the unigram baseline "
                             "and may stay there",
                             std::floor(100 * done))
               : "the run ended with a loss that is not clearly below the unigram baseline",
      learned_positions_
          ? "start again with model.positions = \"relative\", which passes that loss early, or "
          : "");
}

Json MaskedLanguageTask::metrics(const Evaluation& e) const {
  Json values = Json::object();
  set_if_finite(values, "validation_loss", e.loss);
  values["validation_accuracy"] = e.accuracy;
  values["validation_targets"] = e.targets;
  const auto& [detection, baselines, sources] = e.details_as<MaskedLanguageDetails>();
  if (detection) {
    set_if_finite(values, "generator_loss", detection->generator_loss);
    set_if_finite(values, "detection_loss", detection->loss);
    values["detection_accuracy"] = detection->accuracy;
    values["replaced"] = detection->replaced;
    values["replaced_found"] = detection->found;
  }
  if (baselines.targets > 0) {
    values["unigram_loss"] = baselines.unigram;
    values["uniform_loss"] = baselines.uniform;
  }
  for (const SourceEvaluation& source : sources) {
    Json& of = values["sources"][source.name];
    set_if_finite(of, "validation_loss", source.loss);
    of["validation_accuracy"] = source.accuracy;
    of["validation_targets"] = source.targets;
    if (source.baselines.targets > 0) of["unigram_loss"] = source.baselines.unigram;
  }
  return values;
}

}  // namespace comera
