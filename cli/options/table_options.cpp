#include "cli/options/table_options.h"

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>

#include "cli/annotations/annotated_options.h"
#include "cli/options/recipe_options.h"
#include "data/annotations/annotated_examples.h"
#include "data/tasks/task_columns.h"
#include "kernels/core/grouped.h"
#include "storage/folder.h"

namespace comera::cli {

namespace {

bool is_of_glue(const std::string& task) {
  const std::vector<std::string> tasks = data::glue_tasks();
  return std::ranges::find(tasks, task) != tasks.end();
}

std::string absolute(const std::string& file) { return storage::from_root(file).lexically_normal().string(); }

// What is not to be looked for in the file.
data::TaskColumns given_columns(const TaskSection& task, const TableOptions& options,
                                const std::vector<std::string>& overrides) {
  data::TaskColumns given{.text = options.text};
  if (options.label.size() == 1) given.label = options.label[0];
  if (options.label.size() > 1) given.label_columns = options.label;
  if (is_of_glue(task.name)) {
    const data::Task known = data::glue_task(task.name, {});
    if (given.text.empty()) given.text = known.text;
    if (given.label.empty()) given.label = known.label;
    given.kind = known.kind;
  }
  if (given.text.empty()) given.text = task.text;
  if (!given.label_columns.empty()) return given;
  if (given.label.empty() && !task.label.empty()) {
    given.label = task.label;
    given.kind = task.kind;
  }
  if (sets_key(overrides, "task.kind") || task.kind == data::TaskKind::contrastive) given.kind = task.kind;
  if (!given.kind && !task.labels.empty()) given.kind = data::TaskKind::classification;
  return given;
}

// Of small tables more, so that the scores say something.
double share_to_hold_out(std::int64_t rows, double enough_rows = 5000) {
  constexpr double usual = 0.1, of_few = 0.2;
  if (rows < 100) return of_few;
  return std::min(usual, std::ceil(1e4 * enough_rows / static_cast<double>(rows)) / 1e4);
}

// "0.0005", or with names where they differ.
std::string rates_text(const LearningRates& rates) {
  bool same = true;
  rates.for_each([&](const char*, double rate) { same = same && rate == rates.largest(); });
  return same ? fmt::format("{:g}", rates.largest()) : rates.text();
}

TableTask with_columns(Recipe recipe, const TableOptions& options,
                       const std::vector<std::string>& overrides) {
  TaskSection& task = recipe.task;
  const bool contrastive = task.kind == data::TaskKind::contrastive;
  if (options.text.size() > (contrastive ? 3 : 2))
    throw UsageError(fmt::format("--text names {} columns; give one, or two for pairs of texts{}",
                                 options.text.size(), contrastive ? ", or three with a hard negative" : ""));
  if (task.name.empty() || (is_of_glue(task.name) && !sets_key(overrides, "task.name"))) {
    task.name = "table";
    if (!sets_key(overrides, "task.labels")) task.labels.clear();
  }
  const data::TaskColumns given = given_columns(task, options, overrides),
                          found = data::find_task_columns(options.input, task.format, task.header, given,
                                                          task.separator);
  if (given.text.empty() && found.text.size() == 1)
    data::refuse_text_as_name(options.input, task.format, task.header, found.text[0]);
  task.text = found.text;
  task.label = found.label;
  task.kind = *found.kind;
  if (!found.label_columns.empty()) task.labels = found.label_columns;
  return {.recipe = recipe,
          .file = options.input,
          .validation = options.validation,
          .rows = found.rows,
          .labels = found.labels,
          .unused = found.unused,
          .notes = found.notes};
}

std::string evaluation_text(const TableTask& table) {
  const TaskSection& task = table.recipe.task;
  if (!task.validation.empty())
    return fmt::format("evaluation       {}\n", table.validation.empty()
                                                    ? fmt::format("{}", fmt::join(task.validation, ", "))
                                                    : table.validation);
  if (task.held_out == 0) return "";
  return fmt::format("evaluation       {:.2g} % of the {}, held out by their texts\n", 100 * task.held_out,
                     task.kind == data::TaskKind::token_classification ? "sentences"
                     : task.kind == data::TaskKind::question_answering ? "questions"
                                                                       : "rows");
}

std::string training_text(const Recipe& recipe) {
  const PhaseSection& phase = recipe.phases[0];
  return fmt::format(
      "training         {}, learning rate {}{}\n",
      phase.epochs ? fmt::format("{:g} {}", *phase.epochs, *phase.epochs == 1 ? "epoch" : "epochs")
                   : fmt::format("{} steps", grouped(*phase.steps)),
      rates_text(phase.learning_rate), recipe.run.initial_checkpoint.empty() ? ", from random weights" : "");
}

}  // namespace

bool TableOptions::given() const {
  if (!input.empty()) return true;
  for (const auto& [option, is_given] : {std::pair{"--validation", !validation.empty()},
                                         {"--text", !text.empty()},
                                         {"--label", !label.empty()}})
    if (is_given)
      throw UsageError(fmt::format("{} is about a table of your own; name it with --input FILE", option));
  return false;
}

void add_table_options(CLI::App& command, TableOptions& options) {
  CLI::Option* input =
      command
          .add_option(
              "--input", options.input,
              "Learn this table of texts and labels: TSV, CSV or JSONL, plain or .gz. Its columns are "
              "found by their names and contents. Or words with labels in CoNLL's columns, or questions and "
              "answers in SQuAD's JSON")
          ->type_name("FILE");
  command
      .add_option(
          "--validation", options.validation,
          "Evaluate on this table (default: on up to a tenth of the rows of --input, which are held out)")
      ->needs(input)
      ->type_name("FILE");
  command
      .add_option("--text", options.text, "The column with the text, or the two columns of a pair of texts")
      ->needs(input)
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("COLUMN,...");
  command
      .add_option(
          "--label", options.label,
          "The column with the class, the score or a list of labels, or the columns of several labels, with "
          "0 or 1 each")
      ->needs(input)
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("COLUMN,...");
}

namespace {

// From a teacher, whatever the other columns say.
bool learns_each_text(const Recipe& recipe) { return recipe.distillation && !recipe.distillation->targets; }

}  // namespace

TableTask with_table(Recipe recipe, const TableOptions& options, const std::vector<std::string>& overrides) {
  refuse_keys(overrides, {"task.train", "task.folder"}, "--input names the table; omit it");
  if (!options.validation.empty())
    refuse_keys(overrides, {"task.validation", "task.held_out"}, "--validation names a table; omit it");
  for (const std::string* file : {&options.input, &options.validation})
    if (*file == "-")
      throw UsageError(
          "standard input cannot be the table to learn from, since a run reads it again when it is resumed; "
          "save it to a file");
  std::optional<data::TaskKind> kind;
  if (recipe.task.kind != data::TaskKind::contrastive) kind = annotated_kind(options.input, overrides);
  if (!kind && data::is_annotation(recipe.task.kind)) kind = recipe.task.kind;
  TableTask found = kind ? with_annotations(std::move(recipe), options, *kind, overrides)
                         : with_columns(std::move(recipe), options, overrides);
  TaskSection& task = found.recipe.task;
  task.folder.clear();
  task.train = {absolute(options.input)};
  if (!options.validation.empty()) {
    storage::refuse_missing(options.validation, "file");
    task.validation = {absolute(options.validation)};
    task.held_out = 0;
  } else if (task.validation.empty() && task.held_out == 0 && !sets_key(overrides, "task.held_out") &&
             !(task.kind == data::TaskKind::contrastive && task.text.size() < 2 &&
               !learns_each_text(found.recipe))) {  // a single text would find itself
    const bool of_student = task.kind == data::TaskKind::contrastive && learns_each_text(found.recipe);
    if (!of_student)
      task.held_out = share_to_hold_out(found.rows);
    else if (task.similarity.empty() && found.rows >= 100)  // fewer would say nothing
      task.held_out = share_to_hold_out(found.rows, 1000);
  }
  return found;
}

namespace {

std::string label_text(const TableTask& table) {
  const TaskSection& task = table.recipe.task;
  const bool several = task.kind == data::TaskKind::multi_label;
  const char* const of = several ? "labels, any number a text" : "classes";
  return fmt::format("{:<17}{}, {}\n", several ? "labels" : "label",
                     task.label.empty() ? fmt::format("{}", fmt::join(task.labels, ", ")) : task.label,
                     task.kind == data::TaskKind::regression ? std::string("a score")
                     : table.labels > data::most_labels
                         ? fmt::format("more than {} {}", data::most_labels, of)
                     : table.labels == 1 ? std::string(several ? "1 label" : "1 class")
                                         : fmt::format("{} {}", table.labels, of));
}

std::string texts_text(const TaskSection& task, bool separate, bool taught) {
  if (task.kind == data::TaskKind::contrastive && taught)
    return fmt::format("texts            {}, each by itself, as the teacher reads it\n",
                       fmt::join(task.text, ", "));
  if (task.kind == data::TaskKind::contrastive)
    return fmt::format("texts            {}, {}\n", fmt::join(task.text, ", "),
                       task.text.size() == 1   ? "each with two dropout masks"
                       : task.text.size() == 2 ? "which belong together"
                                               : "the last one a hard negative");
  if (task.text.size() == 2)
    return fmt::format("texts            {} and {}, {}\n", task.text[0], task.text[1],
                       separate ? "encoded separately and compared" : "in one sequence");
  return fmt::format("text             {}\n", task.text[0]);
}

}  // namespace

std::string describe(const TableTask& table) {
  const Recipe& recipe = table.recipe;
  const TaskSection& task = recipe.task;
  if (data::is_annotation(task.kind))
    return describe_annotations(table) + evaluation_text(table) + training_text(recipe);
  const bool contrastive = task.kind == data::TaskKind::contrastive;
  std::string text = fmt::format("table            {}, {} rows{}\n", table.file, grouped(table.rows),
                                 contrastive ? "" : " with a label");
  text += texts_text(task, recipe.model.pairs == PairEncoding::separate, learns_each_text(recipe));
  if (!table.unused.empty())
    text += fmt::format("not used         {} (--text COLUMN,COLUMN for pairs of texts)\n",
                        fmt::join(table.unused, ", "));
  if (!contrastive) text += label_text(table);
  text += evaluation_text(table) + training_text(recipe);
  for (const std::string& note : table.notes) text += fmt::format("note             {}\n", note);
  return text;
}

Recipe with_same_table(Recipe recipe, const TableOptions& options) {
  TaskSection& task = recipe.task;
  const auto require = [&](const char* option, const std::string& asked,
                           const std::vector<std::string>& begun) {
    if (!asked.empty() && (begun.size() != 1 || absolute(begun[0]) != absolute(asked)))
      throw UsageError(
          fmt::format("the run in {} was not started with {} {}; give the same table, or choose "
                      "another --output",
                      recipe.run.output, option, asked));
  };
  require("--input", options.input, task.train);
  require("--validation", options.validation, task.validation);
  if (!options.text.empty()) task.text = options.text;
  if (options.label.size() == 1) task.label = options.label[0];
  if (options.label.size() > 1) task.label.clear(), task.labels = options.label;
  return recipe;
}

}  // namespace comera::cli
