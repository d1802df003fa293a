#include "training/tasks/click_task.h"

#include <nlohmann/json.hpp>

#include <fmt/format.h>

#include <algorithm>

#include "data/clicks/click_loader.h"
#include "model/dlrm/click_micro_batches.h"
#include "storage/folder.h"
#include "training/run/phase.h"

namespace comera {

data::ClickLoaderOptions ClickTask::options_of(const PhaseOf& phase) const {
  const Dlrm& model = form_->model();
  return {
      .capacity = ClickCapacity::single(phase.section().examples_per_micro_batch,
                                        model.config().dense_features, rows_of(model.config())),
      .right_rows = model.right_rows(),
      .seed = order_seed(phase.recipe.run.seed, phase.phase),
      .micro_batches_per_step = phase.section().micro_batches_per_step,
  };
}

ClickTask::ClickTask(const DataSection& data)
    : folder_(data.train),
      held_out_folder_(data.validation),
      train_(data.train, "train"),
      order_(data.order) {
  if (data.validation.empty()) return;
  held_out_ = std::make_unique<data::ClickShardSet>(data.validation, "validation");
  COMERA_CHECK(
      held_out_->info().encoding == train_.info().encoding,
      "{} and {} have different encodings: make both with the same one (comera clicks data --encoding FILE)",
      data.validation, data.train);
}

void ClickTask::require_same_encoding(const CheckpointReader& checkpoint) const {
  if (checkpoint.text("/data", "encoding") != train_.info().encoding)
    throw UsageError(
        fmt::format("{} has another encoding than the training data of {}, so the same ids mean other "
                    "values: make it with that encoding (comera clicks data --encoding FILE)",
                    folder_, checkpoint.path().string()));
}

std::vector<GivenFile> ClickTask::inputs() const {
  std::vector<GivenFile> inputs = {{"data.train", folder_, train_.fingerprint()}};
  if (held_out_) inputs.push_back({"data.validation", held_out_folder_, held_out_->fingerprint()});
  return inputs;
}

std::unique_ptr<data::BatchStream> ClickTask::batches(const PhaseOf& phase, const Communicator& processes,
                                                      bool ahead) const {
  data::ClickLoaderOptions options = options_of(phase);
  options.order = order_ == DataOrder::stored ? data::ClickOrder::time : data::ClickOrder::shuffled;
  options.process = processes.process();
  options.world_size = processes.world_size();
  if (!ahead) options.prefetch = 0;
  return std::make_unique<data::ClickLoader>(train_, options);
}

std::unique_ptr<PackLayout> ClickTask::micro_batches(const PhaseOf& phase) const {
  return std::make_unique<ClickMicroBatches>(form_->model(), options_of(phase).capacity);
}

void ClickTask::write_encoding(const RunDirectory& directory) const {
  const std::filesystem::path from = std::filesystem::path(folder_) / data::click_encoding_file;
  const std::filesystem::path to = directory.path() / data::click_encoding_file;
  if (!storage::exists(from)) return;  // who made the shards has not said how
  const data::ClickEncoding encoding = data::ClickEncoding::load(from);
  COMERA_CHECK(encoding.fingerprint() == train_.info().encoding,
               "{} does not match the shards beside it: make them again from the logs", from.string());
  if (storage::exists(to)) {
    if (data::ClickEncoding::load(to).fingerprint() == encoding.fingerprint()) return;
    throw UsageError(
        fmt::format("{}: differs from the encoding of data.train, and a run in this folder would overwrite "
                    "it; move it, or choose another --output",
                    to.string()));
  }
  encoding.save(to);
}

std::optional<data::ClickScores> score_clicks(StepEngine& engine, const data::ClickShardSet& examples,
                                              const data::ClickLoaderOptions& micro_batches,
                                              std::int64_t most_micro_batches,
                                              const std::function<bool()>& stop, Communicator& communicator) {
  data::ClickLoaderOptions options = micro_batches;
  options.one_pass = true;
  options.order = most_micro_batches > 0 ? data::ClickOrder::shuffled : data::ClickOrder::time;
  options.seed = 0;
  options.micro_batches_per_step = options.world_size = communicator.world_size();
  options.process = communicator.process();
  data::ClickLoader loader(examples, options);
  const std::int64_t size = options.capacity.examples;
  const std::int64_t rows =
      most_micro_batches > 0 ? std::min(most_micro_batches * size, examples.rows()) : examples.rows();
  // Other processes' entries are 0. The last one: whether to stop.
  std::vector<double> answers(static_cast<std::size_t>(2 * rows + 1));
  const std::span<double> logits(answers.data(), static_cast<std::size_t>(rows));
  const std::span<double> labels(answers.data() + rows, static_cast<std::size_t>(rows));
  engine.clear_results();
  for (std::int64_t micro_batch = options.process; micro_batch * size < rows;
       micro_batch += options.world_size) {
    if (stop && stop()) {
      answers.back() = 1;
      break;
    }
    const data::BatchStream::MicroBatch batch = loader.next();
    engine.load(batch.block);
    engine.evaluate();
    const std::vector<double> values = read_tensor(engine.micro_batch().answers(), engine.allocator());
    const float* clicked = loader.clicks().arrays().labels.data<float>();
    std::copy_n(values.begin(), batch.units, logits.begin() + loader.first());
    std::copy_n(clicked, batch.units, labels.begin() + loader.first());
  }
  engine.clear_results();
  communicator.sum(answers);
  if (answers.back() > 0) return std::nullopt;
  data::ClickScores scores = data::click_scores(logits, std::vector<float>(labels.begin(), labels.end()));
  scores.set = "held-out clicks";
  return scores;
}

std::optional<Evaluation> ClickTask::evaluate(StepEngine& engine, const PhaseOf& phase,
                                              const std::function<bool()>& stop, Communicator& communicator) {
  const std::optional<data::ClickScores> scores = score_clicks(
      engine, *held_out_, options_of(phase), phase.recipe.run.evaluation_batches, stop, communicator);
  if (!scores) return std::nullopt;
  Evaluation evaluation;
  evaluation.score = -scores->loss;
  evaluation.loss = scores->loss;
  evaluation.accuracy = scores->accuracy;
  evaluation.targets = scores->examples;
  evaluation.details = *scores;
  return evaluation;
}

std::string ClickTask::describe(const Evaluation& evaluation) const {
  return data::describe(evaluation.details_as<data::ClickScores>());
}

Json metrics_of(const data::ClickScores& scores, const std::string& prefix) {
  Json values = Json::object();
  set_if_finite(values, prefix + "loss", scores.loss);
  set_if_finite(values, prefix + "normalised_entropy", scores.normalised_entropy);
  set_if_finite(values, prefix + "auc", scores.auc);
  set_if_finite(values, prefix + "accuracy", scores.accuracy);
  values[prefix + "click_rate"] = scores.click_rate;
  values[prefix + "examples"] = scores.examples;
  return values;
}

Json ClickTask::metrics(const Evaluation& evaluation) const {
  return metrics_of(evaluation.details_as<data::ClickScores>(), "validation_");
}

}  // namespace comera
