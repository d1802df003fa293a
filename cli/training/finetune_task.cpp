#include "cli/training/finetune_task.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/annotations/annotated_options.h"
#include "storage/folder.h"

namespace comera::cli {

namespace {

// The recipe where none is named, and how it is fitted to the table and the model.
struct UsualRecipe {
  const char* name;
  std::int64_t length;  // of its phase
};
constexpr UsualRecipe table_recipe{"table", 128}, tokens_recipe{"tokens", 128},
    answers_recipe{"answers", 384};
constexpr std::int64_t many_rows = 10000;
constexpr double epochs_of_many_rows = 3;

// BERT and its like have learned pairs in one sequence, and a use of [CLS]; so has what was tuned from them.
bool is_like_bert(const Recipe& model) {
  const bool imported = model.phases.size() == 1 && model.phases[0].name == "imported";
  return imported || (reads_sequences(model.model.head) && model.model.pooling == Pooling::first);
}

std::vector<std::string> settings_for(const Recipe& model, std::int64_t length) {
  std::vector<std::string> settings;
  if (is_like_bert(model)) {
    settings = {"model.pairs=joint"};
    if (!model.tensorized.enabled) settings.emplace_back("phase.0.learning_rate=5e-5");
    if (model.model.pooling == Pooling::first || model.model.head == HeadKind::contrastive)
      settings.emplace_back("model.pooling=first");
  } else if (!model.tensorized.enabled) {
    settings = {"phase.0.learning_rate=1.5e-4"};
  }
  if (!is_pretraining(model.model.head) && model.task.text.size() == 2)  // it compares pairs in its own way
    settings.emplace_back(model.model.pairs == PairEncoding::separate ? "model.pairs=separate"
                                                                      : "model.pairs=joint");
  if (model.model.max_positions < length)
    settings.push_back(fmt::format("phase.0.length={}", model.model.max_positions));
  return settings;
}

// For a resumed run: its own recipe, whatever a later version of this program would choose.
std::optional<Recipe> begun_recipe(TrainingCommandOptions training) {
  if (training.resume == "never" || training.output.empty()) return std::nullopt;
  const std::filesystem::path run = training.output, tokenizer = run / "tokenizer.model";
  if (!storage::exists(run / "recipe.toml") || !recipe_of_run(run)) return std::nullopt;
  training.recipe.file = (run / "recipe.toml").string();
  Recipe recipe = load_encoder_recipe(training);
  if (storage::exists(tokenizer) && !sets_key(training.recipe.overrides, "data.tokenizer"))
    recipe.data.tokenizer = tokenizer.string();
  return recipe;
}

// By its name, or, where none is given, by the file to learn.
std::optional<UsualRecipe> usual_recipe(const FinetuneOptions& options) {
  const std::string& given = options.training.recipe.file;
  for (const UsualRecipe& recipe : {table_recipe, tokens_recipe, answers_recipe})
    if (given == recipe.name && !storage::exists(given)) return recipe;  // a file of that name is the user's
  if (!given.empty()) return std::nullopt;
  const auto kind = options.table.given()
                        ? annotated_kind(options.table.input, options.training.recipe.overrides)
                        : std::nullopt;
  if (!kind) return table_recipe;
  return *kind == data::TaskKind::token_classification ? tokens_recipe : answers_recipe;
}

bool has_task(const TaskSection& task) { return !task.train.empty() || !task.folder.empty(); }

}  // namespace

FinetuneTask finetune_task(const FinetuneOptions& options) {
  TrainingCommandOptions training = options.training;
  const bool has_table = options.table.given();
  const std::optional<UsualRecipe> usual = usual_recipe(options);
  if (usual) {
    if (training.from.empty())
      throw UsageError(
          "there is neither a model nor a recipe: give the pretrained model with --from MODEL, or a RECIPE");
    if (const std::optional<Recipe> begun = begun_recipe(training))
      return {has_table ? with_same_table(*begun, options.table) : *begun};
    training.recipe.file = usual->name;
    training.defaults = [usual](const Recipe& model) { return settings_for(model, usual->length); };
  }
  const Recipe recipe = load_encoder_recipe(training);
  if (!has_table && usual && !has_task(recipe.task))
    throw UsageError("there is nothing to learn: give a table of texts and labels with --input FILE");
  if (!has_table) return {recipe};
  if (recipe.run.output.empty() && options.writes)
    throw UsageError("there is no folder for the run: name it with --output DIR");
  const std::vector<std::string>& overrides = training.recipe.overrides;
  TableTask task = with_table(recipe, options.table, overrides);
  if (usual && task.rows >= many_rows && !sets_key(overrides, "phase.0.epochs") &&
      !sets_key(overrides, "phase.0.steps"))
    task.recipe.phases[0].epochs = std::min(task.recipe.phases[0].epochs.value_or(0), epochs_of_many_rows);
  return {task.recipe, describe(task)};
}

}  // namespace comera::cli
