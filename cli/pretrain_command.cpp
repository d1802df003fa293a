#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/commands.h"
#include "cli/number_checks.h"
#include "cli/output_options.h"
#include "cli/run_training.h"
#include "cli/training_options.h"
#include "kernels/core/console.h"
#include "storage/durable_file.h"
#include "training/rate_search.h"

namespace comera::cli {

namespace {

struct PretrainOptions {
  TrainingCommandOptions training;
  bool find_rate = false;
  double minutes = 5;
  std::int64_t trial_steps = 0;
  std::filesystem::path plot;
};

void find_rate(const PretrainOptions& options, const Communicator& communicator, StopSignals& signals) {
  if (!communicator.alone())
    throw UsageError("--find-rate runs in one process; the rates that it finds are those of several as well");
  if (options.training.resume != "never" || options.training.use_older || options.training.stop_after > 0)
    throw UsageError(
        "--find-rate begins from the start every time and saves nothing; leave --resume, "
        "--use-older-checkpoint "
        "and --stop-after out");
  if (!options.plot.empty()) {
    if (options.plot.extension() != ".svg")
      throw UsageError(
          fmt::format("{}: --plot writes SVG; give the file a name in .svg", options.plot.string()));
    prepare_output(options.plot);
  }
  const Recipe recipe = load_training_recipe(options.training);
  signals.begin();
  const RateReport report = find_rates(
      recipe, {.minutes = options.minutes, .steps = options.trial_steps, .stop_requested = [&signals] {
                 return signals.requested();
               }});
  put("{}", describe(report));
  if (options.plot.empty()) return;
  if (report.stopped) {
    put("{} was not written\n", options.plot.string());
    return;
  }
  storage::write_file_durably(options.plot, svg_of(plot_of(report, recipe.phases[0].learning_rate)));
  put("saved    {}\n", options.plot.string());
}

}  // namespace

void add_pretrain_command(CLI::App& program) {
  auto options = std::make_shared<PretrainOptions>();
  CLI::App* command = program.add_subcommand("pretrain", "Pretrain a model as a recipe says");
  add_training_options(*command, options->training);
  CLI::Option* find = command->add_flag(
      "--find-rate", options->find_rate,
      "Train nothing but short trials, and say which learning rates are best for each kind of parameter");
  CLI::Option* minutes =
      command->add_option("--minutes", options->minutes, "Of all trials of --find-rate together, about")
          ->needs(find)
          ->check(number_above_0(1e6))
          ->capture_default_str();
  command
      ->add_option("--trial-steps", options->trial_steps, "Steps of a trial, instead of as --minutes allow")
      ->needs(find)
      ->excludes(minutes)
      ->check(positive_number);
  command->add_option("--plot", options->plot, "An SVG file for the losses that --find-rate has seen")
      ->needs(find)
      ->type_name("FILE.svg");
  command->footer(
      "Example: comera pretrain recipes/quickstart.toml --set data.train=corpus --set data.validation=corpus "
      "\\\n"
      "           --set data.tokenizer=tok.model --output runs/first --resume auto\n"
      "Several processes: mpirun -np 4 comera pretrain ... (docs/scaling.md)\n"
      "Ctrl-C, SIGTERM, SIGUSR1 or a closed terminal (SIGHUP, unless under nohup) saves a checkpoint and "
      "stops; SIGQUIT does not save.");
  command->callback([options] {
    run_in_job([&](Communicator& communicator, StopSignals& signals) {
      if (options->find_rate)
        find_rate(*options, communicator, signals);
      else
        run_training(load_training_recipe(options->training),
                     training_options(options->training, communicator, signals), signals);
    });
  });
}

}  // namespace comera::cli
