#include "cli/annotations/annotated_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cli/options/recipe_options.h"
#include "data/annotations/squad_reader.h"
#include "data/annotations/token_examples.h"
#include "kernels/core/grouped.h"

namespace comera::cli {

namespace {

void refuse_several(const char* option, const std::vector<std::string>& columns) {
  if (columns.size() > 1)
    throw UsageError(
        fmt::format("{} names {} columns; words have one, by its number", option, columns.size()));
}

void refuse_columns(const TableOptions& options) {
  for (const auto& [option, columns] : {std::pair{"--text", &options.text}, {"--label", &options.label}})
    if (!columns->empty())
      throw UsageError(fmt::format("{} is about a table's columns, but {} has questions and answers; omit it",
                                   option, options.input));
}

void take_columns(TaskSection& task, const TableOptions& options) {
  refuse_several("--text", options.text);
  refuse_several("--label", options.label);
  if (!options.text.empty()) task.text = options.text;
  if (!options.label.empty()) task.label = options.label[0];
}

}  // namespace

std::optional<data::TaskKind> annotated_kind(const std::string& file,
                                             const std::vector<std::string>& overrides) {
  for (const data::TaskKind kind : {data::TaskKind::token_classification, data::TaskKind::question_answering})
    if (std::ranges::any_of(overrides, [&](const std::string& text) {
          return text.starts_with("task.kind") && text.find(data::name_of(kind)) != text.npos;
        }))
      return kind;
  if (sets_key(overrides, "task.kind")) return std::nullopt;
  if (data::is_conll_file(file)) return data::TaskKind::token_classification;
  if (data::is_squad_file(file)) return data::TaskKind::question_answering;
  return std::nullopt;
}

TableTask with_annotations(Recipe recipe, const TableOptions& options, data::TaskKind kind,
                           const std::vector<std::string>& overrides) {
  TaskSection& task = recipe.task;
  task.kind = kind;
  const bool questions = kind == data::TaskKind::question_answering;
  if (!sets_key(overrides, "task.name")) task.name = questions ? "answers" : "tokens";
  if (questions) {
    refuse_columns(options);
    const data::SquadFile found = data::read_squad(options.input, true);
    if (found.impossible && !sets_key(overrides, "task.unanswerable")) task.unanswerable = true;
    return {.recipe = recipe,
            .file = options.input,
            .validation = options.validation,
            .rows = std::ssize(found.questions),
            .unused = {},
            .notes = {},
            .unanswerable = found.unanswerable()};
  }
  take_columns(task, options);
  const data::TokenFile found =
      data::survey_token_file(options.input, {.text = task.text, .label = task.label});
  return {.recipe = recipe,
          .file = options.input,
          .validation = options.validation,
          .rows = found.sentences,
          .labels = std::ssize(found.labels),
          .unused = {},
          .notes = {},
          .words = found.words,
          .columns = found.columns};
}

std::string describe_annotations(const TableTask& table) {
  const TaskSection& task = table.recipe.task;
  if (task.kind == data::TaskKind::question_answering)
    return fmt::format(
        "questions        {}, {} with an answer in their text{}\n"
        "texts            in windows of {} tokens that share up to {}\n",
        table.file, grouped(table.rows - table.unanswerable),
        table.unanswerable > 0 ? fmt::format(", {} without", grouped(table.unanswerable)) : "",
        table.recipe.phases[0].length, std::min(task.overlap, table.recipe.phases[0].length / 2));
  return fmt::format(
      "sentences        {}, {} with {} words\n"
      "words            column {} of {}\n"
      "labels           column {}, {} classes\n",
      table.file, grouped(table.rows), grouped(table.words), task.text.empty() ? "1" : task.text[0],
      table.columns, task.label.empty() ? std::to_string(table.columns) : task.label, table.labels);
}

}  // namespace comera::cli
