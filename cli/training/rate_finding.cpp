#include "cli/training/rate_finding.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "cli/options/number_checks.h"
#include "cli/options/output_options.h"
#include "cli/options/training_options.h"
#include "kernels/core/console.h"
#include "storage/durable_file.h"
#include "training/rates/rate_search.h"

namespace comera::cli {

CLI::Option* add_rate_finding(CLI::App& command, RateFinding& options) {
  CLI::Option* find =
      command.add_flag("--find-rate", options.asked,
                       "Only find the best learning rates for each kind of parameter, by short trials");
  CLI::Option* minutes =
      command
          .add_option("--minutes", options.minutes, "Take about this many minutes for all trials together")
          ->needs(find)
          ->check(number_above_0(1e6))
          ->capture_default_str();
  command
      .add_option("--trial-steps", options.trial_steps,
                  "Train each trial for this many steps, instead of a number that fits --minutes")
      ->needs(find)
      ->excludes(minutes)
      ->check(positive_number);
  command.add_option("--plot", options.plot, "Draw the losses of the trials into this SVG file")
      ->needs(find)
      ->type_name("FILE.svg");
  return find;
}

void find_rate(const RateFinding& options, const TrainingCommandOptions& training, bool finetune,
               const std::function<Recipe()>& load, const Communicator& communicator, StopSignals& signals) {
  if (!communicator.alone())
    throw UsageError("--find-rate runs in one process; its rates hold for several as well");
  if (training.resume != "never" || training.use_older || training.stop_after > 0)
    throw UsageError(
        "--find-rate always starts from the beginning and saves nothing; omit --resume, "
        "--use-older-checkpoint and --stop-after");
  if (!options.plot.empty()) {
    if (options.plot.extension() != ".svg")
      throw UsageError(
          fmt::format("{}: --plot writes SVG; give the file a name in .svg", options.plot.string()));
    prepare_output(options.plot);
  }
  Recipe recipe = load();
  if (recipe.run.output.empty()) recipe.run.output = "RUN";  // nothing is written there
  signals.begin();
  const RateReport report =
      find_rates(recipe, {.minutes = options.minutes,
                          .finetune = finetune,
                          .steps = options.trial_steps,
                          .stop_requested = [&signals] { return signals.requested(); }});
  print_out("{}", describe(report));
  if (options.plot.empty()) return;
  if (report.stopped) {
    print_out("{} was not written\n", options.plot.string());
    return;
  }
  storage::write_file_durably(options.plot, svg_of(plot_of(report, recipe.phases[0].learning_rate)));
  print_out("saved    {}\n", options.plot.string());
}

}  // namespace comera::cli
