#include "training/tasks/sequence_task.h"

#include <nlohmann/json.hpp>

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "data/annotations/token_examples.h"
#include "kernels/core/tensors/finite.h"
#include "recipes/fit_shapes.h"
#include "recipes/suggest.h"
#include "storage/folder.h"
#include "training/distillation/trained_teacher.h"
#include "training/inference/gathered_values.h"
#include "training/vectors/contrastive_task.h"

namespace comera {

namespace {

std::vector<std::string> files_of(const std::vector<data::Task::Set>& sets) {
  std::vector<std::string> files;
  for (const data::Task::Set& set : sets) files.push_back(set.file.string());
  return files;
}

// Labels are read without surrounding spaces.
bool has_spaces_around(const std::string& label) {
  constexpr std::string_view spaces = " \t\r";
  return spaces.find(label.front()) != spaces.npos || spaces.find(label.back()) != spaces.npos;
}

// Checks the classes that a recipe names, if any.
void check_labels(const std::vector<std::string>& labels, data::TaskKind kind) {
  if (labels.size() == 1 && kind != data::TaskKind::contrastive)
    throw UsageError(fmt::format("task.labels has only '{}'; give at least two classes", labels[0]));
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i].empty())
      throw UsageError("task.labels has an empty label, which no example can have; remove it");
    if (has_spaces_around(labels[i]))
      throw UsageError(
          fmt::format("task.labels has '{}' with a space around it, but labels are read from files without; "
                      "remove the space",
                      labels[i]));
    if (std::find(labels.begin(), labels.begin() + static_cast<std::ptrdiff_t>(i), labels[i]) !=
        labels.begin() + static_cast<std::ptrdiff_t>(i))
      throw UsageError(fmt::format("task.labels has '{}' twice; name each class once", labels[i]));
  }
}

// A model trained on a single answer only learns to give it.
void check_answers(const data::Task& task, const data::Examples& examples) {
  const auto is_same = [&](std::int64_t i) {
    return examples.label(i) == examples.label(0) && examples.score(i) == examples.score(0) &&
           std::ranges::equal(examples.targets(i), examples.targets(0));
  };
  for (std::int64_t i = 1; i < examples.count(); ++i)
    if (!is_same(i)) return;
  const auto answer = [&]() -> std::string {
    switch (task.kind) {
      case data::TaskKind::classification:
        return fmt::format("label '{}'", task.labels[static_cast<std::size_t>(examples.label(0))]);
      case data::TaskKind::regression:
        return fmt::format("score {}", examples.score(0));
      default:
        return "labels";
    }
  };
  const std::string left_out =
      examples.reports().empty() ? "" : fmt::format(" ({})", fmt::join(examples.reports(), "; "));
  throw Error(fmt::format(
      "{}: all {} examples have the same {}, so there is nothing to learn{}; give other files, or "
      "another task.label",
      fmt::join(files_of(task.train), ", "), examples.count(), answer(), left_out));
}

// What follows from the kind of a task.
struct KindTraits {
  const char* name;
  data::TaskMetric metric;  // usual one
  HeadKind head;
  bool has_labels;
};

KindTraits traits_of(data::TaskKind kind) {
  using enum data::TaskMetric;
  switch (kind) {
    case data::TaskKind::classification:
      return {"classification", accuracy, HeadKind::classification, true};
    case data::TaskKind::regression:
      return {"regression", spearman, HeadKind::regression, false};
    case data::TaskKind::multi_label:
      return {"task with several labels", micro_f1, HeadKind::multi_label, true};
    case data::TaskKind::token_classification:
      return {"token classification", f1, HeadKind::token_classification, true};
    case data::TaskKind::question_answering:
      return {"question answering", f1, HeadKind::question_answering, false};
    case data::TaskKind::contrastive:
      return {"contrastive task", mrr, HeadKind::contrastive, true};  // labels choose rows
  }
  throw Error("a task of no kind");
}

// Of labels that are not those of entities, such as parts of speech, words are counted.
data::TaskMetric metric_of(const TaskSection& resolved) {
  if (resolved.metric) return *resolved.metric;
  const bool words = resolved.kind == data::TaskKind::token_classification &&
                     std::ranges::none_of(resolved.labels, data::is_chunk_label);
  return words ? data::TaskMetric::accuracy : traits_of(resolved.kind).metric;
}

void check_class_weights(const TaskSection& resolved) {
  const ClassWeights& weights = resolved.class_weights;
  if (weights.any() && resolved.kind != data::TaskKind::classification)
    throw UsageError(fmt::format("task.class_weights is for classes, but the task is a {}; remove it",
                                 traits_of(resolved.kind).name));
  if (!weights.values.empty() && weights.values.size() != resolved.labels.size())
    throw UsageError(
        fmt::format("task.class_weights has {} weights, but there are {} classes: {}; give one for "
                    "each, in this order",
                    weights.values.size(), resolved.labels.size(), fmt::join(resolved.labels, ", ")));
}

// The training files' own rows instead of validation files.
void hold_out(data::Task& task, double share) {
  if (share == 0) return;
  if (!task.validation.empty())
    throw UsageError(
        "task.held_out takes rows of the training files to evaluate on, but there are validation files; "
        "remove task.held_out or task.validation");
  task.held_out = share;
  for (data::Task::Set& set : task.train) {
    set.part = data::TaskPart::training;
    task.validation.push_back({task.train.size() == 1 ? "held-out" : "held-out rows of " + set.name, set.file,
                               data::TaskPart::held_out});
  }
}

// The sets, whose files are there.
const std::vector<data::Task::Set>& present(const std::vector<data::Task::Set>& sets, const char* key) {
  for (const data::Task::Set& set : sets)
    storage::refuse_missing(set.file, "file", fmt::format("if it has moved: --set {}=FILE", key));
  return sets;
}

// The tokens of an example, to be compared.
std::string_view texts_of(const data::Examples& examples, std::int64_t example) {
  const auto first = examples.text(example, 0), second = examples.text(example, 1);
  return {reinterpret_cast<const char*>(first.data()), (first.size() + second.size()) * sizeof first[0]};
}

[[noreturn]] void missing(const char* key, const char* what) {
  throw UsageError(
      fmt::format("{0} is missing: {1}; give it in the recipe or with --set {0}=...", key, what));
}

}  // namespace

std::vector<data::Task::Set> named_sets(const std::vector<std::string>& files) {
  std::vector<data::Task::Set> sets;
  for (const std::string& file : files) {
    std::filesystem::path name = std::filesystem::path(file).filename();
    if (name.extension() == ".gz") name = name.stem();
    sets.push_back({name.stem().string(), file});
  }
  // Scores are distinguished by these names.
  std::map<std::string, int> times;
  for (const data::Task::Set& set : sets) ++times[set.name];
  for (data::Task::Set& set : sets)
    if (times[set.name] > 1) set.name = set.file.string();
  return sets;
}

data::Task task_of(const TaskSection& section, TaskUse use) {
  const bool trains = use == TaskUse::training;
  data::Task task;
  const auto glue = data::glue_tasks();
  if (section.name.empty()) missing("task.name", "the name of a GLUE task, or any name for your own files");
  if (std::ranges::find(glue, section.name) != glue.end()) {
    if (trains && section.folder.empty() &&
        (section.train.empty() || (section.validation.empty() && section.held_out == 0)))
      missing("task.folder", "the folder with the GLUE task's TSV files");
    task = data::glue_task(section.name, section.folder);
    if (section.folder.empty()) task.train.clear(), task.validation.clear();
  } else {
    if (!section.folder.empty())
      throw UsageError(
          fmt::format("task.folder is for GLUE tasks, but task.name = \"{}\" is not a GLUE task{}; for your "
                      "own files set task.train and task.validation",
                      section.name, suggestion(section.name, glue)));
    const bool annotated = data::is_annotation(section.kind);
    if (trains && !annotated && section.text.empty())
      missing("task.text", "the one or two columns with text");
    const bool columns =
        annotated || (section.kind == data::TaskKind::multi_label && !section.labels.empty());
    if (trains && section.label.empty() && !columns && section.kind != data::TaskKind::contrastive)
      missing("task.label", "the column with the label or score");
    if (trains && section.train.empty()) missing("task.train", "the files to train on");
    task.name = section.name;
    task.kind = section.kind;
    task.metric = metric_of(section);
  }
  if (section.format != data::TableFormat::automatic) task.format = section.format;
  if (!section.header) task.header = false;
  task.separator = section.separator;
  if (task.separator.empty())
    throw UsageError("task.separator is empty; give the text between labels, such as \",\"");
  task.overlap = section.overlap;
  task.unanswerable = section.unanswerable;
  task.no_answer_threshold = section.no_answer_threshold;
  if (task.no_answer_threshold != 0 && !task.unanswerable)
    throw UsageError(
        "task.no_answer_threshold is for questions that may have no answer; set task.unanswerable=true, too");
  if (!section.text.empty()) task.text = section.text;
  if (!section.label.empty()) task.label = section.label;
  if (!section.labels.empty()) task.labels = section.labels;
  if (!section.train.empty()) task.train = named_sets(section.train);
  if (!section.validation.empty()) task.validation = named_sets(section.validation);
  hold_out(task, section.held_out);
  const bool contrastive = task.kind == data::TaskKind::contrastive;
  if (contrastive && task.validation.empty()) task.metric = data::TaskMetric::spearman;
  if (section.metric) task.metric = *section.metric;
  if (task.text.size() > (contrastive ? 3 : 2))
    throw UsageError(fmt::format("task.text names {} columns; give one{}", task.text.size(),
                                 contrastive ? ", two or three" : " or two"));
  if (!contrastive && !section.similarity.empty())
    throw UsageError(
        "task.similarity is for task.kind = \"contrastive\"; name tables to evaluate on in task.validation");
  if (!traits_of(task.kind).has_labels && !task.labels.empty())
    throw UsageError(fmt::format("task.labels names classes, but task.kind is \"{}\"; remove one of them",
                                 data::name_of(task.kind)));
  check_labels(section.labels, task.kind);
  if (!data::fits(task.metric, task.kind))
    throw UsageError(fmt::format("task.metric = \"{}\" does not fit a {}", data::name_of(task.metric),
                                 traits_of(task.kind).name));
  return task;
}

namespace {

Recipe resolve_kind(const Recipe& recipe) {
  Recipe resolved = recipe;
  resolved.generator.reset();  // of a pretraining that it begins with
  data::Task task = task_of(recipe.task);
  if (task.kind != data::TaskKind::regression) {  // of one that it begins with
    resolved.model.score_mean.reset();
    resolved.model.score_std.reset();
  }
  if (task.kind == data::TaskKind::contrastive) {
    check_class_weights(resolved.task);
    return resolve_contrastive(resolved, task);
  }
  const bool labelled = traits_of(task.kind).has_labels, annotated = data::is_annotation(task.kind);
  if (labelled && task.labels.empty())
    task.labels = annotated ? data::find_token_labels(task, task.train) : data::find_labels(task, task.train);
  TaskSection& section = resolved.task;
  section.kind = task.kind;
  section.text = task.text;
  section.label = task.label;
  section.labels = task.labels;
  section.metric = annotated ? metric_of(section) : task.metric;
  section.format = task.format;
  section.header = task.header;
  if (task.text.size() < 2) resolved.model.pairs = PairEncoding::joint;  // one text is no pair
  // An encoder's recipe may contain the ranks of a head that this model does not have.
  if (is_pretraining(resolved.model.head)) resolved.tensorized.ranks.erase("head.transform");
  resolved.model.head = traits_of(task.kind).head;
  if (!reads_sequences(resolved.model.head)) {  // its head has no other layer than that of its scores
    resolved.tensorized.head.reset();
    for (const char* layer : {"head.transform", "head.pooler"}) resolved.tensorized.ranks.erase(layer);
    resolved.model.pooling = Pooling::first;
  }
  if (task.kind == data::TaskKind::regression && !(resolved.model.score_mean && resolved.model.score_std)) {
    const data::ScoreScale scale = data::find_score_scale(task, task.train);
    if (!resolved.model.score_mean) resolved.model.score_mean = scale.mean;
    if (!resolved.model.score_std) resolved.model.score_std = scale.std;
  }
  if (labelled) resolved.model.classes = static_cast<std::int64_t>(task.labels.size());
  check_class_weights(section);
  std::vector<std::string> notes;
  fit_head(resolved.tensorized, resolved.model, notes);
  return resolved;
}

}  // namespace

Recipe resolve_task(const Recipe& recipe) { return resolve_distillation(resolve_kind(recipe)); }

std::unique_ptr<data::ExampleSamples> samples_for(const EncoderConfig& config, const data::Task& task,
                                                  const data::Examples& examples, std::int64_t length) {
  const bool separate = config.pairs == PairEncoding::separate;
  if (separate && task.text.size() != 2)
    throw UsageError(
        fmt::format("model.pairs = \"separate\" compares two texts, but the task has {}: {}; "
                    "--set model.pairs=joint takes one, or several as one sequence",
                    task.text.size(), fmt::join(task.text, ", ")));
  data::ScoreScale scale;
  if (config.head == HeadKind::regression)
    scale = {.mean = config.score_mean.value_or(0), .std = config.score_std.value_or(1)};
  return std::make_unique<data::ExampleSamples>(examples, length, config.types, separate, scale);
}

std::optional<data::TaskScores> score(InferenceEngine& engine, const data::Task& task,
                                      const data::Examples& examples, const std::string& set,
                                      const MicroBatchCapacity& capacity, const EncoderConfig& config,
                                      const std::function<bool()>& stop, Communicator& communicator) {
  const std::int64_t width = engine.width();
  const auto gathered = gathered_values(engine, samples_for(config, task, examples, capacity.longest),
                                        capacity, examples.count() * width, keep_row, stop, communicator);
  if (!gathered) return std::nullopt;
  const std::vector<double>& values = *gathered;
  data::TaskScores scores;
  if (!all_finite(values)) {
    scores = data::unknown_scores(task.kind, examples.count());
  } else if (task.kind == data::TaskKind::classification) {
    std::vector<std::int32_t> labels(examples.count());
    for (std::int64_t i = 0; i < examples.count(); ++i) labels[i] = examples.label(i);
    scores = data::classification_scores(values, labels, width);
    if (task.labels.size() == 2) scores.f1_of = task.labels[1];
  } else if (task.kind == data::TaskKind::multi_label) {
    std::vector<float> wanted;
    for (std::int64_t i = 0; i < examples.count(); ++i)
      wanted.insert(wanted.end(), examples.targets(i).begin(), examples.targets(i).end());
    scores = data::multi_label_scores(values, wanted, width);
  } else {
    std::vector<float> wanted(examples.count());
    for (std::int64_t i = 0; i < examples.count(); ++i) wanted[i] = examples.score(i);
    scores = data::regression_scores(values, wanted);
  }
  scores.set = set;
  return scores;
}

std::vector<double> class_weights(const ClassWeights& given, const std::vector<std::int64_t>& counts) {
  if (!given.balanced) return given.values;
  const double examples = std::accumulate(counts.begin(), counts.end(), 0.0);
  std::vector<double> weights;
  for (const std::int64_t count : counts)
    weights.push_back(examples / static_cast<double>(counts.size() * std::max<std::int64_t>(count, 1)));
  return weights;
}

SequenceTask::SequenceTask(const TaskSection& section, const data::Tokenizer& tokenizer,
                           const EncoderConfig& config, std::int64_t length)
    : FileTask(task_of(section), tokenizer),
      config_(config),
      length_(length),
      train_(data::Examples::read(task_, present(task_.train, "task.train"), tokenizer, true, length)) {
  check_answers(task_, train_);
  if (section.class_weights.any())
    weights_ = class_weights(section.class_weights, train_.class_counts(task_.labels.size()));
  if (!weights_.empty()) train_.set_weights(weights_);
  for (const data::Task::Set& set : present(task_.validation, "task.validation"))
    validation_.push_back(data::Examples::read(task_, {set}, tokenizer, true, length));
}

double SequenceTask::targets(const data::Batch& batch) const {
  if (weights_.empty())
    return static_cast<double>(batch.examples * config_.scores_per_example(batch.sequences));
  const auto weights = batch.scores.first(static_cast<std::size_t>(batch.examples));
  return std::accumulate(weights.begin(), weights.end(), 0.0);
}

// Distances from a teacher's vectors and states have other units.
double SequenceTask::loss_scale() const {
  const bool of_scores = task_.kind == data::TaskKind::regression && !config_.distillation.of_encoder();
  return of_scores ? std::pow(config_.score_std.value_or(1), 2) : 1;
}

double SequenceTask::loss_unit() const {
  if (task_.kind != data::TaskKind::regression) return 1;
  const auto count = static_cast<double>(train_.count());
  double sum = 0, squares = 0;
  for (std::int64_t i = 0; i < train_.count(); ++i) sum += train_.score(i);
  for (std::int64_t i = 0; i < train_.count(); ++i) squares += std::pow(train_.score(i) - sum / count, 2);
  return squares / count;
}

std::vector<GivenFile> SequenceTask::held_out() const {
  std::vector<GivenFile> files;
  for (std::size_t i = 0; i < validation_.size(); ++i)
    files.push_back({"task.validation", task_.validation[i].file.string(), validation_[i].fingerprint()});
  return files;
}

std::vector<GivenFile> SequenceTask::inputs() const {
  std::vector<GivenFile> inputs = FileTask::inputs();
  // Examples only contain the indices of their labels.
  if (!task_.labels.empty())
    inputs.push_back({"task.label", fmt::format("the labels in {}", source()),
                      fmt::format("{}", fmt::join(task_.labels, "\n"))});
  return inputs;
}

std::unique_ptr<data::SampleSource> SequenceTask::samples(std::int64_t length) const {
  return samples_for(config_, task_, train_, length);
}

std::optional<Evaluation> SequenceTask::evaluate(StepEngine& engine, const Model& model,
                                                 const data::LoaderOptions& options, std::int64_t,
                                                 const std::function<bool()>& stop,
                                                 Communicator& communicator) {
  // Created for each evaluation, because compaction replaces the model.
  InferenceEngine inference(model, InferenceEngine::Output::predictions, engine.processor());
  std::vector<data::TaskScores> sets;
  for (std::size_t i = 0; i < validation_.size(); ++i) {
    const auto scores = comera::score(inference, task_, validation_[i], task_.validation[i].name,
                                      options.capacity, config_, stop, communicator);
    if (!scores) return std::nullopt;
    sets.push_back(*scores);
  }
  const double score = sets[0].value(task_.metric);
  return evaluation_of(std::move(sets), score);
}

// With a note where the scale is that of other data.
std::string SequenceTask::scale_text() const {
  double sum = 0;
  for (std::int64_t i = 0; i < train_.count(); ++i) sum += train_.score(i);
  const double mean = sum / static_cast<double>(train_.count()), std = std::sqrt(loss_unit());
  const double own_mean = config_.score_mean.value_or(0), own_std = config_.score_std.value_or(1);
  std::string text = fmt::format(
      "scores: standardised by a mean of {:.5g} and a standard deviation of {:.5g}", own_mean, own_std);
  if (std > 0 && (std::abs(own_mean - mean) > 2 * std || own_std > 3 * std || std > 3 * own_std))
    text += fmt::format(
        "; these files have {:.5g} and {:.5g}, by which a new run without model.score_mean and "
        "model.score_std learns faster",
        mean, std);
  return text;
}

std::vector<std::string> SequenceTask::reports() const {
  std::vector<std::string> lines;
  const auto add = [&](const std::string& name, const data::Examples& examples) {
    const auto samples = samples_for(config_, task_, examples, length_);
    lines.push_back(fmt::format("{}: {} examples, {} truncated to {} tokens", name, examples.count(),
                                samples->truncated(), length_));
    lines.insert(lines.end(), examples.reports().begin(), examples.reports().end());
    lines.insert(lines.end(), examples.notes().begin(), examples.notes().end());
  };
  add("train", train_);
  std::set<std::string_view> trained;
  for (std::int64_t i = 0; i < train_.count(); ++i) trained.insert(texts_of(train_, i));
  for (std::size_t i = 0; i < validation_.size(); ++i) {
    const data::Examples& examples = validation_[i];
    add(task_.validation[i].name, examples);
    std::int64_t known = 0;
    for (std::int64_t e = 0; e < examples.count(); ++e)
      known += trained.contains(texts_of(examples, e)) ? 1 : 0;
    if (20 * known >= examples.count())
      lines.push_back(fmt::format(
          "note: {} of the {} examples of {} have texts that are learned too, so their scores say "
          "little about new texts",
          known, examples.count(), task_.validation[i].name));
  }
  if (task_.kind != data::TaskKind::regression) {
    const std::vector<std::int64_t> counts = train_.class_counts(task_.labels.size());
    std::vector<std::string> classes;
    for (std::size_t c = 0; c < counts.size() && c < 10; ++c)
      classes.push_back(weights_.empty()
                            ? fmt::format("{} ({})", task_.labels[c], counts[c])
                            : fmt::format("{} ({}, weight {:.3g})", task_.labels[c], counts[c], weights_[c]));
    if (counts.size() > classes.size())
      classes.push_back(fmt::format("{} more", counts.size() - classes.size()));
    lines.push_back(fmt::format("{}: {}", task_.kind == data::TaskKind::classification ? "classes" : "labels",
                                fmt::join(classes, ", ")));
  }
  if (task_.kind == data::TaskKind::regression) lines.push_back(scale_text());
  return lines;
}

}  // namespace comera
