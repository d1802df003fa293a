#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>

#include "bench/rank_benchmark.h"
#include "bench/step_benchmark.h"
#include "cli/checkpoint_subject.h"
#include "cli/commands.h"
#include "cli/device_option.h"
#include "cli/recipe_options.h"
#include "kernels/backends/backends.h"

namespace comera::cli {

namespace {

struct BenchOptions {
  RecipeOptions recipe;
  std::string checkpoint;  // or the recipe
  StepBenchmarkOptions step;
  std::int64_t vocabulary = 0;
  int threads = 0;
  std::string graph = "on";
};

std::string bench_recipe(BenchOptions& options) {
  const Recipe recipe = options.recipe.load();
  if (recipe.model.vocabulary == 0 && options.vocabulary == 0)
    throw UsageError(
        "the recipe takes its vocabulary from the tokenizer; say how large it is with --vocabulary N");
  options.step.config = encoder_config(recipe, options.vocabulary);
  if (!recipe.tensorized.enabled)
    throw UsageError(
        "bench step compares a tensorized model with its dense twin; leave tensorized.enabled at true");
  options.step.tf32 = recipe.precision.tf32;
  return benchmark_step(options.step);
}

void bench_step(BenchOptions& options) {
  if (options.recipe.file.empty() == options.checkpoint.empty())
    throw UsageError("give one model: a recipe, or a checkpoint with --checkpoint");
  options.step.graphs = options.graph == "on";
  prepare_threads(options.threads);
  if (options.checkpoint.empty())
    std::cout << bench_recipe(options);
  else
    std::cout << benchmark_ranks(
        CheckpointReader(checkpoint_subject(options.checkpoint, "a checkpoint (.h5)")), options.step);
}

}  // namespace

void add_bench_command(CLI::App& program) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App* command = program.add_subcommand("bench", "Measure on this machine");
  command->require_subcommand(1);
  CLI::App* step = command->add_subcommand(
      "step", "Whole training steps of a recipe's model, or of a checkpoint's, and of its dense twin");
  add_recipe_options(*step, options->recipe);
  step->get_option("recipe")->required(false);
  step->add_option("--checkpoint", options->checkpoint,
                   "Instead of a recipe, a checkpoint (.h5) or run's folder of a run that adapts ranks: its "
                   "model as it was before, with its dead entries zero, and without them")
      ->type_name("CHECKPOINT")
      ->excludes("--set");
  step->add_option("--tokens", options->step.tokens, "Tokens of a step")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  step->add_option("--length", options->step.length, "Tokens of a sequence")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  step->add_option("--repeats", options->step.repeats, "Steps of each, in turn")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  add_device_option(*step, options->step.device);
  step->add_option("--graph", options->graph, "on: record a step on a GPU once and replay it; off: never")
      ->check(CLI::IsMember({"on", "off"}))
      ->capture_default_str();
  step->add_option("--threads", options->threads, "Threads; 0: all")->check(CLI::NonNegativeNumber);
  step->add_option("--vocabulary", options->vocabulary,
                   "Vocabulary, where the recipe leaves it to the tokenizer")
      ->check(CLI::PositiveNumber)
      ->excludes("--checkpoint");
  step->add_flag("--profile", options->step.profile,
                 "Also show where the time goes and what the work needs at least");
  step->add_flag("--only-tensorized", options->step.only_tensorized, "Leave out the dense twin");
  step->footer(
      "Examples:\n"
      "  comera bench step recipes/six_encoder_mnli.toml --tokens 4096 --length 128\n"
      "  comera bench step --checkpoint runs/adapted --tokens 4096 --length 128");
  step->callback([options] { bench_step(*options); });
}

}  // namespace comera::cli
