#include <CLI/CLI.hpp>
#include <memory>

#include "cli/commands/commands.h"
#include "cli/options/training_options.h"
#include "cli/run_training.h"

namespace comera::cli {

namespace {

void finetune(const TrainingCommandOptions& options, Communicator& communicator, StopSignals& signals) {
  const Recipe recipe = load_encoder_recipe(options);
  TrainingOptions training = training_options(options, communicator, signals);
  training.finetune = true;
  run_training(recipe, training, signals);
}

}  // namespace

void add_finetune_command(CLI::App& program) {
  auto options = std::make_shared<TrainingCommandOptions>();
  CLI::App* command =
      program.add_subcommand("finetune", "Fine-tune a model on sentences or pairs with a label or score");
  add_training_options(*command, *options);
  command->footer(
      "Examples:\n"
      "  comera finetune six_encoder_mnli --set task.folder=glue/MNLI \\\n"
      "    --set data.tokenizer=tokenizer.model --output runs/mnli\n"
      "  comera finetune function_pairs --from runs/first --output runs/mine \\\n"
      "    --set task.name=mine --set task.train=train.csv \\\n"
      "    --set task.validation=dev.csv \\\n"
      "    --set 'task.text=[\"title\", \"body\"]' --set task.label=topic\n"
      "The first starts from random weights, the second from a pretrained encoder. To use several processes: "
      "mpirun -np 4 comera finetune ... (docs/guide/scaling.md).\n"
      "Ctrl-C, SIGTERM, SIGUSR1 or a closed terminal (SIGHUP, except under nohup) saves a checkpoint and "
      "stops; SIGQUIT does not save. Continue with comera resume. best.h5 is the best model by task.metric.");
  command->callback([options] {
    run_in_job(
        [&](Communicator& communicator, StopSignals& signals) { finetune(*options, communicator, signals); });
  });
}

}  // namespace comera::cli
