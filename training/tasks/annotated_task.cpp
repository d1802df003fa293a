#include "training/tasks/annotated_task.h"

#include "kernels/core/tensors/finite.h"
#include "training/inference/gathered_values.h"
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
  std::vector<std::int64_t> next;  // position of each sequence
  for (std::int64_t i = 0; i < examples.sequences(); ++i) next.push_back(examples.first_position(i));
  return gathered_values(
      engine, std::make_unique<data::AnnotatedSamples>(examples, types, true), capacity_to_ask(capacity),
      examples.positions() * each,
      [&](std::int64_t sequence, std::span<const double> logits, std::span<double> all) {
        const std::int64_t position = next[static_cast<std::size_t>(sequence)]++;
        examples.keep(position, logits, all.data() + position * each);
      },
      stop, communicator);
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
    : FileTask(task_of(section), tokenizer),
      metric_(section.metric.value_or(task_.metric)),
      types_(config.types),
      length_(length),
      train_(data::read_annotated(task_, task_.train, tokenizer, true, length)) {
  for (const data::Task::Set& set : task_.validation)
    validation_.push_back(data::read_annotated(task_, {set}, tokenizer, true, length));
}

std::vector<GivenFile> AnnotatedTask::held_out() const {
  std::vector<GivenFile> files;
  for (std::size_t i = 0; i < validation_.size(); ++i)
    files.push_back({"task.validation", task_.validation[i].file.string(), validation_[i]->fingerprint()});
  return files;
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
  const double score = sets[0].value(metric_);
  return evaluation_of(std::move(sets), score);
}

std::vector<std::string> AnnotatedTask::reports() const {
  std::vector<std::string> lines = train_->reports();
  for (const auto& examples : validation_)
    lines.insert(lines.end(), examples->reports().begin(), examples->reports().end());
  return lines;
}

}  // namespace comera
