#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <memory>

#include "cli/commands.h"
#include "cli/recipe_options.h"
#include "recipes/model_report.h"
#include "recipes/run/signals.h"
#include "recipes/run/training_run.h"

namespace comera::cli {

namespace {

struct Options {
  RecipeOptions recipe;
  std::string output, resume = "never";
  std::int64_t stop_after = 0;
  bool use_older = false;
};

double mebibytes(double bytes) { return bytes / 1048576; }

void print_memory(TrainingRun& run) {
  const Allocator& allocator = host_allocator();
  const Arena::Plan& plan = run.engine().arena_plan();
  const auto peak = [&](MemoryKind kind) { return mebibytes(static_cast<double>(allocator.use(kind).peak)); };
  fmt::print(
      "peak memory      parameters {:.1f}, gradients {:.1f}, optimizer {:.1f}, activations {:.1f}, workspace "
      "{:.1f} "
      "MiB\n",
      peak(MemoryKind::parameters), peak(MemoryKind::gradients), peak(MemoryKind::optimizer),
      mebibytes(static_cast<double>(plan.saved)),
      mebibytes(static_cast<double>(plan.total - plan.saved)) + peak(MemoryKind::workspace));
}

void print_outcome(TrainingRun& run, const TrainingOutcome& outcome) {
  if (outcome.evaluation) {
    const Evaluation& e = *outcome.evaluation;
    fmt::print("held-out loss    {:.4f} nats per masked token over {} tokens; masked accuracy {:.2f} %\n",
               e.loss, e.targets, 100 * e.accuracy);
    const double gain = e.baselines.unigram - e.loss;
    fmt::print("baselines        unigram {:.4f}, uniform {:.4f}: the model is {:.4f} nat {} than unigram\n",
               e.baselines.unigram, e.baselines.uniform, std::abs(gain), gain >= 0 ? "better" : "worse");
  }
  const std::int64_t parameters = run.engine().model().parameters().count();
  const std::int64_t dense = dense_parameters(run.engine().model().config());
  if (outcome.tokens_per_second > 0)
    fmt::print("speed            {:.0f} tokens/s\n", outcome.tokens_per_second);
  fmt::print("parameters       {} against {} of the dense twin: {:.1f} times fewer\n", parameters, dense,
             static_cast<double>(dense) / static_cast<double>(parameters));
  const double size = static_cast<double>(std::filesystem::file_size(outcome.checkpoint));
  // A checkpoint is the parameters and two moments for each.
  const double dense_size =
      3.0 * static_cast<double>(dense) * size_of(run.engine().model().parameters().dtype());
  fmt::print("checkpoint       {:.1f} MiB with optimizer state; the dense twin's would be {:.1f} MiB\n",
             mebibytes(size), mebibytes(dense_size));
  print_memory(run);
  fmt::print("saved            {}\n", outcome.checkpoint.string());
}

void pretrain(const Options& options) {
  Recipe recipe = options.recipe.load();
  if (!options.output.empty()) recipe.run.output = options.output;
  TrainingOptions training;
  if (options.resume == "auto")
    training.mode = RunMode::automatic;
  else if (options.resume == "always")
    training.mode = RunMode::resume;
  if (options.use_older) training.resume = ResumeMode::newest_valid;
  training.stop_after = options.stop_after;
  const StopSignals signals;
  training.stop_requested = [&signals] { return signals.requested(); };
  TrainingRun run(recipe, training);
  if (run.finished()) fmt::print("this run is finished already; give it more steps to go on\n");
  const TrainingOutcome outcome = run.run();
  if (!outcome.finished) {
    fmt::print("stopped at step {} of {}; saved in {}\ngo on with the same command and --resume auto\n",
               outcome.step, run.total_steps(), outcome.checkpoint.string());
    return;
  }
  print_outcome(run, outcome);
}

}  // namespace

void add_pretrain_command(CLI::App& program) {
  auto options = std::make_shared<Options>();
  CLI::App* command = program.add_subcommand("pretrain", "Pretrain a model as a recipe says");
  add_recipe_options(*command, options->recipe);
  command->add_option("--output", options->output, "The run's directory, instead of the recipe's run.output");
  command
      ->add_option("--resume", options->resume,
                   "never: the directory must be new; auto: go on where a stopped run in it stands; always: "
                   "there must "
                   "be one")
      ->check(CLI::IsMember({"never", "auto", "always"}));
  command->add_flag("--use-older-checkpoint", options->use_older,
                    "If the newest checkpoint is damaged, say so and resume from the one before it");
  command->add_option("--stop-after", options->stop_after, "Save and stop after this step")
      ->check(CLI::PositiveNumber);
  command->footer(
      "Example: comera pretrain recipes/quickstart.toml --set data.train=corpus --set data.validation=corpus "
      "\\\n"
      "           --set data.tokenizer=tok.model --output runs/first --resume auto\n"
      "Ctrl-C or SIGTERM saves a checkpoint and stops.");
  command->callback([options] { pretrain(*options); });
}

}  // namespace comera::cli
