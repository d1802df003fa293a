#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>

#include "checkpoints/checkpoint_file.h"
#include "checkpoints/model_state.h"
#include "cli/checkpoint_subject.h"
#include "cli/commands.h"
#include "recipes/model_report.h"
#include "recipes/recipe.h"
#include "recipes/run/checkpoint_recipe.h"

namespace comera::cli {

namespace {

struct InspectOptions {
  std::string subject;
  std::vector<std::string> overrides;
  std::int64_t vocabulary = 0;
  std::int64_t plan_tokens = 0;
};

bool is_recipe(const std::string& subject) { return subject.ends_with(".toml"); }

void inspect(InspectOptions options) {
  if (std::filesystem::is_directory(options.subject))
    options.subject = checkpoint_subject(options.subject, "a recipe (.toml), a checkpoint (.h5)").string();
  Recipe recipe;
  std::optional<CheckpointReader> checkpoint;
  std::int64_t vocabulary = options.vocabulary;
  if (is_recipe(options.subject)) {
    recipe = load_recipe(options.subject, options.overrides);
  } else {
    checkpoint.emplace(options.subject);
    recipe = checkpoint_recipe(*checkpoint, options.overrides);
    vocabulary = checkpoint->integer("/data", "vocabulary");
    fmt::print("{}: step {}, phase {}, {} tokens seen\n\n", options.subject,
               checkpoint->integer("/trainer", "step"), checkpoint->integer("/trainer", "phase"),
               checkpoint->integer("/trainer", "tokens"));
  }
  if (recipe.model.vocabulary == 0 && vocabulary == 0)
    throw UsageError(
        fmt::format("{} takes its vocabulary from the tokenizer; say how large it is with --vocabulary N",
                    options.subject));
  const Model model(encoder_config(recipe, vocabulary), host_allocator(), false);
  if (checkpoint && options.overrides.empty()) check_parameters(*checkpoint, model.parameters());
  std::cout << model_report(model);
  if (options.plan_tokens > 0) std::cout << "\n" << plan_report(model, options.plan_tokens);
}

}  // namespace

void add_inspect_command(CLI::App& program) {
  auto options = std::make_shared<InspectOptions>();
  CLI::App* command =
      program.add_subcommand("inspect", "Show the layers, shapes and sizes of a recipe or checkpoint");
  command->add_option("subject", options->subject, "A recipe (.toml), a checkpoint (.h5) or a run's folder")
      ->required();
  command->add_option("--set", options->overrides,
                      "Override a recipe's key, such as tensorized.enabled=false");
  command
      ->add_option("--vocabulary", options->vocabulary,
                   "Vocabulary, where the recipe leaves it to the tokenizer")
      ->check(CLI::PositiveNumber);
  command
      ->add_option("--plan", options->plan_tokens, "Also show how layers are evaluated for this many tokens")
      ->check(CLI::PositiveNumber);
  command->footer("Example: comera inspect recipes/six_encoder_mnli.toml --plan 4096");
  command->callback([options] { inspect(*options); });
}

}  // namespace comera::cli
