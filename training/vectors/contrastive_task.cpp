#include "training/vectors/contrastive_task.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "data/vectors/contrastive_samples.h"
#include "kernels/core/grouped.h"
#include "recipes/fit_shapes.h"
#include "training/tasks/sequence_task.h"

namespace comera {

namespace {

std::int64_t longest_of(const Recipe& recipe) {
  std::int64_t length = 0;
  for (const PhaseSection& phase : recipe.phases) length = std::max(length, phase.length);
  return length;
}

void check_rows(const TaskSection& section) {
  if (section.label.empty() != section.labels.empty())
    throw UsageError(
        section.label.empty()
            ? "task.labels chooses rows by task.label, which is missing; name that column"
            : fmt::format("task.label = \"{}\" chooses rows of a contrastive task by task.labels, "
                          "which is missing; name the labels to learn from, or remove it",
                          section.label));
}

// Otherwise its texts are those that a teacher has vectors of, each by itself.
bool learns_pairs(const Recipe& recipe) { return !recipe.distillation || recipe.distillation->targets; }

void check_metric(const TaskSection& section, bool has_pairs) {
  const bool has_scores = !section.similarity.empty(),
             by_scores = *section.metric == data::TaskMetric::spearman;
  if ((has_pairs || has_scores) && !(by_scores ? has_scores : has_pairs))
    throw UsageError(fmt::format("task.metric = \"{}\" needs {}", data::name_of(*section.metric),
                                 by_scores ? "a table of scored pairs in task.similarity"
                                           : "pairs in task.validation, or task.held_out"));
}

// Of one text both sequences are equal but for their dropout masks.
void require_dropout(const Recipe& recipe) {
  if (recipe.task.text.size() == 1 && recipe.model.dropout == 0 && recipe.model.attention_dropout == 0)
    throw UsageError(
        fmt::format("task.text has one column, '{}', so each text has to find itself under another dropout "
                    "mask, but model.dropout is 0; set it: --set model.dropout=0.1",
                    recipe.task.text.front()));
}

// Without others in its micro-batch an example has no negatives.
void require_negatives(const Recipe& recipe, const EncoderConfig& config) {
  for (std::size_t i = 0; i < recipe.phases.size(); ++i) {
    const PhaseSection& phase = recipe.phases[i];
    const std::int64_t sequences =
        phase.sequences_per_micro_batch > 0
            ? phase.sequences_per_micro_batch
            : data::capacity_for(phase.tokens_per_micro_batch, phase.length, 0, 1).sequences;
    if (config.contrastive.examples(sequences) < 2)
      throw UsageError(
          fmt::format("phase.{0}: a micro-batch has room for {1} sequences, but a contrastive task needs "
                      "several examples of {2} in each, since they are each other's negatives; raise "
                      "phase.{0}.tokens_per_micro_batch",
                      i, sequences, config.contrastive.texts));
  }
}

}  // namespace

bool compares_with_teacher(const Recipe& recipe) {
  const TaskSection& section = recipe.task;
  return section.kind == data::TaskKind::contrastive && !learns_pairs(recipe) && section.similarity.empty() &&
         (section.held_out > 0 || !section.validation.empty()) &&
         section.metric.value_or(data::TaskMetric::spearman) == data::TaskMetric::spearman;
}

Recipe resolve_contrastive(const Recipe& recipe, const data::Task& task) {
  Recipe resolved = recipe;
  resolved.generator.reset();
  check_rows(recipe.task);
  TaskSection& section = resolved.task;
  section.kind = task.kind;
  section.metric = compares_with_teacher(recipe) ? data::TaskMetric::spearman : task.metric;
  section.text = task.text;
  if (!compares_with_teacher(recipe)) check_metric(section, !task.validation.empty());
  if (learns_pairs(recipe)) require_dropout(resolved);
  resolved.model.pairs = PairEncoding::separate;
  for (const char* layer : {"head.transform", "head.pooler"}) resolved.tensorized.ranks.erase(layer);
  resolved.model.head = HeadKind::contrastive;
  std::vector<std::string> notes;
  fit_head(resolved.tensorized, resolved.model, notes);
  return resolved;
}

ContrastiveTask::ContrastiveTask(const Recipe& recipe, const data::Tokenizer& tokenizer,
                                 const EncoderConfig& config)
    : FileTask(task_of(recipe.task), tokenizer),
      config_(config),
      pairs_(learns_pairs(recipe)),
      compares_(comera::compares_with_teacher(recipe)),
      length_(longest_of(recipe)),
      train_(data::Examples::read(task_, task_.train, tokenizer, !task_.label.empty(), length_)),
      sets_(compares_ ? read_texts(task_, tokenizer, length_) : read_pairs(task_, tokenizer, length_)) {
  if (pairs_) require_negatives(recipe, config);
  if (pairs_ && train_.count() < 2)
    throw Error(fmt::format("{}: has one example only, which has no negatives; give more rows", source()));
  for (VectorSet& set : read_similarity(recipe.task.similarity, tokenizer, length_))
    sets_.push_back(std::move(set));
}

double ContrastiveTask::targets(const data::Batch& batch) const {
  return static_cast<double>(batch.examples) * (pairs_ && config_.contrastive.symmetric ? 2 : 1);
}

std::vector<GivenFile> ContrastiveTask::held_out() const {
  std::vector<GivenFile> files;
  for (const VectorSet& set : sets_)
    files.push_back({set.retrieval || compares_ ? "task.validation" : "task.similarity", set.file.string(),
                     set.examples.fingerprint()});
  return files;
}

std::unique_ptr<data::SampleSource> ContrastiveTask::samples(std::int64_t length) const {
  if (!pairs_) return std::make_unique<data::SeparateTexts>(train_, texts(), length);
  return std::make_unique<data::ContrastiveSamples>(train_, texts(), length);
}

std::optional<Evaluation> ContrastiveTask::evaluate(StepEngine& engine, const Model& model,
                                                    const data::LoaderOptions& options, std::int64_t,
                                                    const std::function<bool()>& stop,
                                                    Communicator& communicator) {
  // Created for each evaluation, because compaction replaces the model.
  InferenceEngine inference(model, output_of(config_.pooling), engine.processor());
  std::vector<data::TaskScores> scores;
  for (const VectorSet& set : sets_) {
    const auto of_set =
        score_vectors(inference, set, options.capacity, config_.contrastive.temperature, stop, communicator);
    if (!of_set) return std::nullopt;
    scores.push_back(*of_set);
  }
  const double score = chosen_score(scores, task_.metric);
  return evaluation_of(std::move(scores), score);
}

void ContrastiveTask::compare_with(const Teacher& teacher, const Processor& processor,
                                   const std::function<bool()>& stop, Communicator& processes) {
  for (VectorSet& set : sets_) ask_teacher(set, train_, {teacher, processor, stop, processes}, length_);
}

std::vector<std::string> ContrastiveTask::reports() const {
  const data::ContrastiveSamples samples(train_, texts(), length_);
  const char* const what = !pairs_        ? "rows, each text by itself"
                           : texts() == 1 ? "texts"
                           : texts() == 2 ? "pairs of texts"
                                          : "pairs of texts with a hard negative";
  std::vector<std::string> lines = {fmt::format("train: {} {}, {} texts truncated to {} tokens",
                                                grouped(train_.count()), what, grouped(samples.truncated()),
                                                length_)};
  const auto add = [&](const data::Examples& examples) {
    lines.insert(lines.end(), examples.reports().begin(), examples.reports().end());
  };
  add(train_);
  for (const VectorSet& set : sets_) {
    lines.push_back(compares_
                        ? fmt::format("{}: {} rows, whose texts are compared as the teacher compares them",
                                      set.name, grouped(set.examples.count()))
                        : fmt::format("{}: {} pairs of texts{}", set.name, grouped(set.examples.count()),
                                      set.retrieval ? "" : " with a score"));
    add(set.examples);
  }
  return lines;
}

}  // namespace comera
