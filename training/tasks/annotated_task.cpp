#include "training/tasks/annotated_task.h"

#include <nlohmann/json.hpp>

#include <fmt/ranges.h>

#include <algorithm>

#include "kernels/core/tensors/finite.h"
#include "training/tasks/sequence_task.h"

namespace comera {

MicroBatchCapacity capacity_to_ask(MicroBatchCapacity capacity) {
  capacity.masked = capacity.tokens;
  capacity.slots = 0;
  return capacity;
}

std::optional<std::vector<double>> annotate(InferenceEngine& engine, const data::AnnotatedExamples& examples,
                                            const MicroBatchCapacity& capacity, std::int64_t types,
                                            const std::function<bool()>& stop, Communicator& communicator) {
  const std::int64_t each = examples.values_each();
  std::vector<double> values(static_cast<std::size_t>(examples.positions() * each + 1));
  std::vector<std::int64_t> next;  // position of each sequence
  for (std::int64_t i = 0; i < examples.sequences(); ++i) next.push_back(examples.first_position(i));
  const bool whole =
      engine.run(std::make_unique<data::AnnotatedSamples>(examples, types, true), capacity_to_ask(capacity),
                 [&](std::int64_t sequence, std::span<const double> logits) {
                   const std::int64_t position = next[static_cast<std::size_t>(sequence)]++;
                   examples.keep(position, logits, values.data() + position * each);
                 },
                 stop, {.process = communicator.process(), .world_size = communicator.world_size()});
  values.back() = whole ? 0 : 1;  // other processes' values are 0
  communicator.sum(values);
  if (values.back() > 0) return std::nullopt;
  values.pop_back();
  return values;
}

data::TaskScores scores_of(const data::AnnotatedExamples& examples, data::TaskKind kind,
                           const std::vector<double>& values, const std::string& set) {
  data::TaskScores scores =
      all_finite(values) ? examples.scores(values) : data::unknown_scores(kind, examples.count());
  scores.set = set;
  return scores;
}

AnnotatedTask::AnnotatedTask(const TaskSection& section, const data::Tokenizer& tokenizer,
                             const EncoderConfig& config, std::int64_t length)
    : EncoderTask(tokenizer),
      task_(task_of(section)),
      metric_(section.metric.value_or(task_.metric)),
      types_(config.types),
      length_(length),
      train_(data::read_annotated(task_, task_.train, tokenizer, true, length)) {
  for (const data::Task::Set& set : task_.validation)
    validation_.push_back(data::read_annotated(task_, {set}, tokenizer, true, length));
}

std::string AnnotatedTask::source() const {
  std::vector<std::string> files;
  for (const data::Task::Set& set : task_.train) files.push_back(set.file.string());
  return fmt::format("{}", fmt::join(files, ", "));
}

std::string AnnotatedTask::held_out_fingerprint() const {
  std::vector<std::string> contents;
  for (const auto& examples : validation_) contents.push_back(examples->fingerprint());
  return fingerprint_of_all(contents);
}

std::vector<GivenFile> AnnotatedTask::inputs() const {
  std::vector<GivenFile> inputs = {{"task.train", source(), train_->fingerprint()}};
  for (std::size_t i = 0; i < validation_.size(); ++i)
    inputs.push_back({"task.validation", task_.validation[i].file.string(), validation_[i]->fingerprint()});
  return inputs;
}

std::unique_ptr<data::SampleSource> AnnotatedTask::samples(std::int64_t length) const {
  COMERA_CHECK(length >= length_, "texts were divided for sequences of {} tokens, not {}", length_, length);
  return std::make_unique<data::AnnotatedSamples>(*train_, types_, false);
}

std::optional<Evaluation> AnnotatedTask::evaluate(StepEngine& engine, const Model& model,
                                                  const data::LoaderOptions& options, std::int64_t,
                                                  const std::function<bool()>& stop,
                                                  Communicator& communicator) {
  // Created for each evaluation, because compaction replaces the model.
  InferenceEngine inference(model, InferenceEngine::Output::logits, engine.processor());
  std::vector<data::TaskScores> sets;
  for (std::size_t i = 0; i < validation_.size(); ++i) {
    const auto values = annotate(inference, *validation_[i], options.capacity, types_, stop, communicator);
    if (!values) return std::nullopt;
    sets.push_back(scores_of(*validation_[i], task_.kind, *values, task_.validation[i].name));
  }
  return Evaluation{.score = sets[0].value(metric_),
                    .loss = sets[0].loss,
                    .accuracy = sets[0].accuracy,
                    .targets = sets[0].examples,
                    .details = sets};
}

std::string AnnotatedTask::describe(const Evaluation& evaluation) const { return describe_sets(evaluation); }

Json AnnotatedTask::metrics(const Evaluation& evaluation) const { return metrics_of_sets(evaluation); }

std::vector<std::string> AnnotatedTask::reports() const {
  std::vector<std::string> lines = train_->reports();
  for (const auto& examples : validation_)
    lines.insert(lines.end(), examples->reports().begin(), examples->reports().end());
  return lines;
}

}  // namespace comera
