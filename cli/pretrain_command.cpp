#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <memory>

#include "cli/commands.h"
#include "cli/training_options.h"
#include "kernels/core/console.h"

namespace comera::cli {

namespace {

void print_held_out(const Evaluation& e) {
  if (!std::isfinite(e.loss)) {
    put("held-out loss    not finite: the model has diverged; train with a lower learning rate\n");
    return;
  }
  put("held-out loss    {:.4f} nats per masked token over {} tokens; masked accuracy {:.2f} %\n", e.loss,
      e.targets, 100 * e.accuracy);
  const double gain = e.baselines.unigram - e.loss;
  put("baselines        unigram {:.4f}, uniform {:.4f}: the model is {:.4f} nat {} than unigram\n",
      e.baselines.unigram, e.baselines.uniform, std::abs(gain), gain >= 0 ? "better" : "worse");
}

void pretrain(const TrainingCommandOptions& options, Communicator& communicator, StopSignals& signals) {
  const Recipe recipe = load_training_recipe(options);
  TrainingRun run(recipe, training_options(options, communicator, signals));
  signals.begin();  // until here a signal just ends the program: nothing can be lost
  if (run.finished() && communicator.first())
    put("this run is finished already; give it more steps to go on\n");
  const TrainingOutcome outcome = run.run();
  if (!communicator.first()) return;
  if (!outcome.finished) return print_stopped(run, outcome);
  if (outcome.evaluation) print_held_out(*outcome.evaluation);
  print_costs(run, outcome);
}

}  // namespace

void add_pretrain_command(CLI::App& program) {
  auto options = std::make_shared<TrainingCommandOptions>();
  CLI::App* command = program.add_subcommand("pretrain", "Pretrain a model as a recipe says");
  add_training_options(*command, *options);
  command->footer(
      "Example: comera pretrain recipes/quickstart.toml --set data.train=corpus --set data.validation=corpus "
      "\\\n"
      "           --set data.tokenizer=tok.model --output runs/first --resume auto\n"
      "Several processes: mpirun -np 4 comera pretrain ... (docs/scaling.md)\n"
      "Ctrl-C, SIGTERM, SIGUSR1 or a closed terminal (SIGHUP, unless under nohup) saves a checkpoint and "
      "stops; SIGQUIT does not save.");
  command->callback([options] {
    run_in_job(
        [&](Communicator& communicator, StopSignals& signals) { pretrain(*options, communicator, signals); });
  });
}

}  // namespace comera::cli
