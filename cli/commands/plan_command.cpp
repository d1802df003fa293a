#include <CLI/CLI.hpp>
#include <memory>

#include "cli/commands/commands.h"
#include "cli/options/number_checks.h"
#include "cli/options/output_options.h"
#include "cli/options/recipe_options.h"
#include "cli/options/training_data_options.h"
#include "cli/precision_note.h"
#include "cli/training_plan.h"
#include "kernels/core/console.h"
#include "kernels/core/terminal.h"
#include "measurements/size_plan.h"
#include "recipes/encoder_config.h"
#include "storage/durable_file.h"
#include "training/resume/checkpoint_tokenizer.h"
#include "training/tasks/masked_language_task.h"

namespace comera::cli {

namespace {

struct PlanOptions {
  RecipeOptions recipe{.file = "codebert_small", .overrides = {}};
  double hours = 0;
  TrainingDataOptions data;
  OutputOptions output;
};

void plan(const PlanOptions& options) {
  if (!options.output.path.empty()) options.output.check();
  Recipe recipe = options.recipe.load_encoder();
  choose_precision(recipe);
  set_data(recipe, options.data);
  if (recipe.data.tokenizer.empty())
    throw UsageError("the tokenizer decides the vocabulary; give it with --tokenizer");
  recipe.run.max_hours = options.hours;
  const data::Tokenizer tokenizer = load_tokenizer(recipe.data.tokenizer);
  check_plannable(recipe);
  // Errors in the data are reported before minutes are spent.
  Recipe smallest = recipe;
  set_size(smallest, {.layers = 1, .hidden = 128, .rank = 8}, tokenizer.vocabulary());
  const MaskedLanguageTask task(recipe.data, tokenizer, encoder_config(smallest, tokenizer.vocabulary()));
  print_out(
      "the best size of {} for {:g} hours, from the results of other models and the time of a step here\n"
      "\n",
      find_recipe(options.recipe.file).filename().string(), options.hours);
  print_out("{}", with_heading(stdout, size_plan_header()));
  const SizePlan sizes = plan_size(recipe, tokenizer.vocabulary(), [](const PlannedSize& size) {
    print_out("{}", size_plan_row(size));
    flush_output();
  });
  print_out("\n{}{}\n", hours_note(sizes, options.hours, tokenizer.vocabulary()),
            size_plan_advice(
                sizes, recipe.phases[0].tokens_per_micro_batch * recipe.phases[0].micro_batches_per_step));
  set_size(recipe, sizes.sizes[sizes.best].size, tokenizer.vocabulary());
  print_training_plan(recipe, {.vocabulary = tokenizer.vocabulary(), .tokenizer = &tokenizer}, 1);
  if (options.output.path.empty()) return;
  storage::write_file_durably(options.output.path, to_toml(recipe));
  print_out("saved            {}: comera pretrain {} --output RUN\n", options.output.path.string(),
            options.output.path.string());
}

}  // namespace

void add_plan_command(CLI::App& program) {
  auto options = std::make_shared<PlanOptions>();
  CLI::App* command =
      program.add_subcommand("plan", "Recommend a model size for a training time on this machine");
  command
      ->add_option("recipe", options->recipe.file,
                   "TOML file or built-in recipe to begin with: its layers, phases and learning rates are "
                   "kept, its width and ranks are chosen")
      ->type_name("RECIPE")
      ->capture_default_str();
  command->add_option("--hours", options->hours, "Hours that training may take")
      ->required()
      ->check(number_above_0(1e6));
  add_training_data_options(*command, options->data);
  command
      ->add_option("--set", options->recipe.overrides,
                   "Set a key of the recipe, such as run.threads=2; may be repeated")
      ->allow_extra_args(false)
      ->type_name("KEY=VALUE");
  add_output_options(*command, options->output, "Write the recipe with the recommended size to this file",
                     false);
  command->footer(
      "Examples:\n"
      "  comera plan --hours 8 --data shards/python shards/java \\\n"
      "    --tokenizer tokenizer.model --output mine.toml\n"
      "  comera pretrain mine.toml --output runs/mine");
  command->callback([options] { plan(*options); });
}

}  // namespace comera::cli
