#include "cli/annotations/annotated_inference.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "data/annotations/annotated_examples.h"
#include "kernels/core/console.h"
#include "kernels/core/grouped.h"
#include "storage/durable_file.h"
#include "training/tasks/annotated_task.h"
#include "training/tasks/sequence_task.h"

namespace comera::cli {

namespace {

struct Suffix {
  const char* name;
  data::AnnotationFormat format;
};

std::vector<Suffix> suffixes_of(data::TaskKind kind) {
  using enum data::AnnotationFormat;
  if (kind == data::TaskKind::token_classification)
    return {{".conll", columns}, {".tsv", columns}, {".txt", columns}, {".jsonl", lines_of_json}};
  return {{".json", json}, {".jsonl", lines_of_json}};
}

std::string suffixes_text(data::TaskKind kind) {
  std::vector<std::string> names;
  for (const Suffix& suffix : suffixes_of(kind)) names.emplace_back(suffix.name);
  return fmt::format("{}", fmt::join(names, " or "));
}

data::AnnotationFormat format_for(data::TaskKind kind, const std::filesystem::path& output) {
  for (const Suffix& suffix : suffixes_of(kind))
    if (output.extension() == suffix.name) return suffix.format;
  throw UsageError(fmt::format("--output {}: the name must end with {}, which selects the format",
                               output.string(), suffixes_text(kind)));
}

// The task of the model for one file of examples.
struct ReadFile {
  data::Task task;
  MicroBatchCapacity capacity;
  std::unique_ptr<data::AnnotatedExamples> examples;
};

ReadFile read_examples(const InferenceOptions& options, const LoadedModel& loaded, const data::Task::Set& set,
                       bool labels) {
  ReadFile question{.task = task_of(loaded.recipe.task, TaskUse::inference),
                    .capacity = inference_capacity(options, loaded),
                    .examples = nullptr};
  question.examples =
      data::read_annotated(question.task, {set}, loaded.tokenizer, labels, question.capacity.longest);
  for (const std::string& report : question.examples->reports()) log_info("{}\n", report);
  return question;
}

std::vector<double> values_for(const LoadedModel& loaded, const ReadFile& question) {
  InferenceEngine engine(loaded.model, InferenceEngine::Output::logits, loaded.processor);
  return *annotate(engine, *question.examples, question.capacity, loaded.model.config().types);
}

}  // namespace

bool is_annotation_output(const std::filesystem::path& output) {
  for (const data::TaskKind kind : {data::TaskKind::token_classification, data::TaskKind::question_answering})
    for (const Suffix& suffix : suffixes_of(kind))
      if (output.extension() == suffix.name && output.extension() != ".tsv" && output.extension() != ".jsonl")
        return true;
  return false;
}

data::TaskScores score_annotations(const InferenceOptions& options, LoadedModel& loaded,
                                   const data::Task::Set& set) {
  const ReadFile question = read_examples(options, loaded, set, true);
  data::TaskScores scores =
      scores_of(*question.examples, question.task.kind, values_for(loaded, question), set.name);
  require_finite(scores.loss, options, set.file);
  return scores;
}

void predict_annotations(const InferenceOptions& options, LoadedModel& loaded,
                         const std::filesystem::path& input, const OutputOptions& output) {
  const data::AnnotationFormat format = format_for(loaded.recipe.task.kind, output.path);
  const ReadFile question = read_examples(options, loaded, {"input", input}, false);
  const std::vector<double> values = values_for(loaded, question);
  require_finite(values, options, input.string());
  storage::write_file_durably(output.path, question.examples->predictions(values, format));
  print_out("predictions for {} {} in {}\n", grouped(question.examples->count()),
            question.task.kind == data::TaskKind::question_answering ? "questions" : "sentences",
            output.path.string());
}

}  // namespace comera::cli
