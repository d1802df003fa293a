#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "cli/annotations/annotated_inference.h"
#include "cli/commands/commands.h"
#include "cli/inference_task.h"
#include "cli/options/inference_options.h"
#include "cli/options/number_checks.h"
#include "cli/run_input.h"
#include "data/annotations/annotated_examples.h"
#include "data/tasks/task_columns.h"
#include "kernels/backends/backends.h"
#include "kernels/core/console.h"
#include "model/encoder_micro_batches.h"
#include "reports/number_text.h"
#include "training/logging/progress.h"
#include "training/tasks/masked_language_task.h"
#include "training/tasks/sequence_task.h"
#include "training/vectors/vector_scores.h"

namespace comera::cli {

namespace {

struct EvalOptions {
  InferenceOptions inference;
  std::vector<std::string> input;
  std::vector<std::string> data;
  std::vector<std::string> pairs, similarity;
  std::int64_t batches = 0;
  bool json = false;
};

// Paths in a recipe are relative to the folder where the run was started.
void check_recipe_path(const std::filesystem::path& path, const EvalOptions& options, const char* instead) {
  std::error_code code;
  if (!std::filesystem::exists(path, code))
    throw UsageError(
        fmt::format("{}: no such file or folder (from the recipe of {}); give {} if it has moved",
                    path.string(), options.inference.model.string(), instead));
}

data::TaskScores score_table(const EvalOptions& options, LoadedModel& loaded, const data::Task::Set& set) {
  const MicroBatchCapacity capacity = inference_capacity(options.inference, loaded);
  const EncoderConfig& config = loaded.model.config();
  InferenceEngine engine(loaded.model, InferenceEngine::Output::predictions, loaded.processor);
  const data::Task task = task_for(options.inference, loaded, set.file, true);
  const auto examples = data::Examples::read(task, {set}, loaded.tokenizer, true, capacity.longest);
  report_examples(set.file.string(), *samples_for(config, task, examples, capacity.longest), examples,
                  capacity.longest);
  if (examples.left_out() > examples.count())
    throw UsageError(fmt::format(
        "{}; that is most of the file, so scores of the rest would say nothing: mend it, or give its "
        "columns with --text and --label",
        fmt::join(examples.reports(), "; ")));
  data::TaskScores scores = *score(engine, task, examples, set.name, capacity, config);
  require_finite(scores.loss, options.inference, set.file);
  return scores;
}

void evaluate_task(const EvalOptions& options, LoadedModel& loaded) {
  if (!options.data.empty())
    throw UsageError("--data is for a pretrained model; this one is fine-tuned: give --input FILE");
  if (options.batches > 0) throw UsageError("--batches is for a pretrained model; this one is fine-tuned");
  TaskSection section = loaded.recipe.task;
  if (!options.input.empty()) section.validation = options.input, section.held_out = 0;
  const std::vector<data::Task::Set> sets_to_score = task_of(section, TaskUse::inference).validation;
  if (sets_to_score.empty()) throw UsageError("no data to evaluate on: give --input FILE");
  Json sets = Json::object();
  for (const data::Task::Set& set : sets_to_score) {
    if (options.input.empty()) check_recipe_path(set.file, options, "--input FILE");
    const data::TaskScores scores = data::is_annotation(loaded.recipe.task.kind)
                                        ? score_annotations(options.inference, loaded, set)
                                        : score_table(options, loaded, set);
    if (options.json)
      sets[set.name] = metrics_of(scores);
    else
      print_out("{}\n", data::describe(scores));
  }
  if (options.json) print_out("{}\n", json_text(sets));
}

// Those that have more tokens than a sequence, [CLS] and [SEP] included.
std::int64_t texts_cut(const VectorSet& set, std::int64_t length) {
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < set.examples.count(); ++i)
    for (std::int64_t text = 0; text < set.texts; ++text)
      count += std::ssize(set.examples.text(i, text)) > length - 2 ? 1 : 0;
  return count;
}

// Of the encoder's vectors, whatever its head is.
void evaluate_vectors(const EvalOptions& options, LoadedModel& loaded) {
  const EncoderConfig& config = loaded.model.config();
  const bool contrastive = config.head == HeadKind::contrastive;
  if (!options.data.empty() || options.batches > 0)
    throw UsageError("--data and --batches are for the loss of a pretrained model; omit them");
  TaskSection section = loaded.recipe.task;
  std::vector<std::string> pairs = options.input;
  pairs.insert(pairs.end(), options.pairs.begin(), options.pairs.end());
  const bool given = !pairs.empty() || !options.similarity.empty();
  // A student of single texts. A model that is loaded has no teacher.
  const bool of_student = contrastive && section.metric == data::TaskMetric::spearman &&
                          section.similarity.empty() && (section.held_out > 0 || !section.validation.empty());
  if (!given && of_student)
    throw UsageError(
        "this student's run compared it with its teacher, and eval has no teacher; give other data: "
        "--similarity FILE of pairs with a score, or --pairs FILE");
  if (given) section.validation = pairs, section.held_out = 0, section.similarity = options.similarity;
  data::Task task;
  if (contrastive) task = task_of(section, TaskUse::inference);
  task.kind = data::TaskKind::contrastive;
  if (!contrastive) {
    task.format = loaded.recipe.task.format, task.header = loaded.recipe.task.header;
    task.text = options.inference.text;
  }
  // Named together, so that no two have one name.
  std::vector<std::string> files;
  for (const data::Task::Set& set : task.validation) files.push_back(set.file.string());
  if (!contrastive) files = pairs;
  const auto retrieval_sets = static_cast<std::ptrdiff_t>(files.size());
  files.insert(files.end(), section.similarity.begin(), section.similarity.end());
  const std::vector<data::Task::Set> named = named_sets(files);
  if (given) task.validation.assign(named.begin(), named.begin() + retrieval_sets);
  const MicroBatchCapacity capacity = inference_capacity(options.inference, loaded);
  std::vector<VectorSet> sets;
  for (const data::Task::Set& set : task.validation) {
    if (!given) check_recipe_path(set.file, options, "--pairs FILE");
    data::Task of_set = task;
    of_set.validation = {set};
    if (given) of_set.label.clear(), of_set.labels.clear();  // which choose rows to train on
    // Columns of other models' tasks say nothing about pairs.
    if (of_set.text.size() < 2)
      of_set.text =
          data::find_task_columns(set.file, task.format, task.header, {.kind = data::TaskKind::contrastive})
              .text;
    for (VectorSet& read : read_pairs(of_set, loaded.tokenizer, capacity.longest))
      sets.push_back(std::move(read));
  }
  for (const std::string& file : section.similarity)
    if (!given) check_recipe_path(file, options, "--similarity FILE");
  std::vector<VectorSet> similar = read_similarity(section.similarity, loaded.tokenizer, capacity.longest);
  for (std::size_t i = 0; i < similar.size(); ++i) {
    if (given) similar[i].name = named[static_cast<std::size_t>(retrieval_sets) + i].name;
    sets.push_back(std::move(similar[i]));
  }
  if (sets.empty())
    throw UsageError("no data to evaluate on: give --pairs FILE, or --similarity FILE of pairs with a score");
  InferenceEngine engine(
      loaded.model,
      output_of(vector_pooling(loaded, "embed --pooling mean or first gives vectors of the encoder alone")),
      loaded.processor);
  Json results = Json::object();
  for (const VectorSet& set : sets) {
    for (const std::string& report : set.examples.reports()) log_info("{}\n", report);
    if (const std::int64_t cut = texts_cut(set, capacity.longest); cut > 0)
      log_info("{}: {} of {} texts cut to {} tokens\n", set.name, grouped(cut),
               grouped(set.examples.count() * set.texts), capacity.longest);
    const data::TaskScores scores = *score_vectors(engine, set, capacity, config.contrastive.temperature);
    require_finite(scores.loss, options.inference, set.file);
    if (options.json)
      results[set.name] = metrics_of(scores);
    else
      print_out("{}\n", data::describe(scores));
  }
  if (options.json) print_out("{}\n", json_text(results));
}

// A model can be evaluated without its training data.
void forget_missing_training_data(DataSection& data) {
  std::error_code code;
  const auto is_missing = [&](const std::string& folder) {
    const bool missing = !folder.empty() && !std::filesystem::exists(folder, code);
    if (missing) log_info("{}: the training data are missing, so the unigram baseline is unknown\n", folder);
    return missing;
  };
  if (data.sources.empty() && is_missing(data.train)) data.train.clear();
  if (std::ranges::any_of(data.sources, [&](const DataSource& source) { return is_missing(source.folder); }))
    data.sources.clear();
}

void evaluate_language_model(const EvalOptions& options, LoadedModel& loaded) {
  if (!options.input.empty())
    throw UsageError(
        "--input is for a fine-tuned model; this one is pretrained: give --data FOLDER of shards");
  DataSection data = loaded.recipe.data;
  follow_run_shards(options.inference.model, data);
  if (options.data.size() == 1) data.validation = options.data.front();
  if (options.data.size() > 1) {
    data.validation.clear(), data.sources.clear();
    for (const std::string& folder : options.data) data.sources.emplace_back().folder = folder;
  }
  if (data.validation.empty() && data.sources.empty())
    throw UsageError("no data to evaluate on: give --data FOLDER of shards");
  if (options.data.empty()) {
    if (!data.validation.empty()) {
      check_recipe_path(data.validation, options, "--data FOLDER");
    } else {  // evaluates the held-out parts of the sources
      for (const DataSource& source : data.sources)
        check_recipe_path(source.folder, options, "--data FOLDER");
    }
  }
  forget_missing_training_data(data);
  data.tokenizer = loaded.trained.tokenizer.string();
  MaskedLanguageTask task(data, loaded.tokenizer, loaded.model.config());
  StepEngine engine(loaded.model, loaded.processor);
  data::LoaderOptions loading;
  loading.masking = task.masking();
  const MicroBatchCapacity capacity = inference_capacity(options.inference, loaded);
  loading.capacity = data::capacity_for(capacity.tokens, capacity.longest, loading.masking.probability,
                                        loaded.model.config().vocabulary);
  loading.right_modulus = loaded.model.token_embedding().right_rows();
  engine.set_micro_batches(EncoderMicroBatches(loaded.model, loading.capacity));
  ProgressBar progress("eval");
  std::int64_t micro_batches = 0;
  const auto go_on = [&] {
    progress.update(micro_batches, fmt::format("{} tokens", grouped(micro_batches * capacity.tokens)));
    ++micro_batches;
    return false;
  };
  const Evaluation evaluation =
      *task.evaluate(engine, loaded.model, loading, options.batches, go_on, one_process());
  require_finite(evaluation.loss, options.inference,
                 data.validation.empty() ? data.sources[0].folder : data.validation);
  if (options.json)
    print_out("{}\n", json_text(task.metrics(evaluation)));
  else
    print_out("{}\n", task.describe(evaluation));
}

void evaluate(const EvalOptions& options) {
  LoadedModel loaded = options.inference.load();
  const HeadKind head = loaded.model.config().head;
  if (options.inference.label.size() > 1 && !reads_sequences(head))
    throw UsageError(
        fmt::format("--label names several columns, but {} does not learn several labels of a text; omit it",
                    options.inference.model.string()));
  if (head == HeadKind::contrastive || !options.pairs.empty() || !options.similarity.empty())
    return evaluate_vectors(options, loaded);
  require_trained_head(*loaded.trained.reader,
                       "train it first, or score its vectors with --pairs or --similarity");
  if (is_pretraining(head))
    evaluate_language_model(options, loaded);
  else
    evaluate_task(options, loaded);
}

}  // namespace

void add_eval_command(CLI::App& program) {
  auto options = std::make_shared<EvalOptions>();
  CLI::App* command = program.add_subcommand("eval", "Score a trained model on held-out data");
  add_inference_options(*command, options->inference);
  add_column_options(*command, options->inference, true);
  command
      ->add_option("--input", options->input,
                   "Score a fine-tuned model on these files instead of its validation files")
      ->type_name("FILE");
  command
      ->add_option("--data", options->data,
                   "Score a pretrained model on the validation splits of these shards, each separately, "
                   "instead of the recipe's")
      ->type_name("DIR");
  command
      ->add_option("--batches", options->batches,
                   "Score a pretrained model on this many random micro-batches of 4,096 tokens per "
                   "validation split (default: all)")
      ->check(positive_number)
      ->type_name("INT");
  command
      ->add_option("--pairs", options->pairs,
                   "Score the vectors of any model: how often it finds the second text of each pair in "
                   "these tables by the first (MRR, recall at 1 and 10)")
      ->type_name("FILE");
  command
      ->add_option("--similarity", options->similarity,
                   "Score the vectors of any model: Spearman's correlation of cosines and scores in these "
                   "tables of two texts and a score, such as STS-B's")
      ->type_name("FILE");
  command->add_flag("--json", options->json, "Print the scores as one JSON object");
  command->footer(
      "Examples:\n"
      "  comera eval runs/first\n"
      "  comera eval runs/mnli --input glue/MNLI/dev_mismatched.tsv\n"
      "  comera eval runs/vectors --pairs held.jsonl --similarity glue/STS-B/dev.tsv\n"
      "Without --batches each file is scored completely; skipped rows are reported on stderr.");
  command->callback([options] { evaluate(*options); });
}

}  // namespace comera::cli
