#include <CLI/CLI.hpp>
#include <memory>

#include "cli/commands/commands.h"
#include "cli/options/training_options.h"
#include "cli/run_training.h"
#include "data/shards/shard_files.h"
#include "kernels/core/console.h"
#include "storage/folder.h"

namespace comera::cli {

namespace {

struct ClickTrainOptions {
  TrainingCommandOptions training;
  std::string data;
};

void train(const ClickTrainOptions& options, Communicator& communicator, StopSignals& signals) {
  Recipe recipe = load_training_recipe(options.training);
  if (!recipe.dlrm)
    throw UsageError(
        fmt::format("{}: has no [dlrm], so it is an encoder's recipe; use comera pretrain or comera finetune",
                    options.training.recipe.path().string()));
  if (!options.data.empty()) {
    recipe.data.train = options.data;
    const auto has = [folder = std::filesystem::path(options.data)](const char* split) {
      return storage::exists(folder / data::shard_name(split, 0));
    };
    if (has("validation"))
      recipe.data.validation = options.data;
    else if (has("train") && recipe.data.validation.empty())
      log_info("note: {} has no held-out part, so nothing is evaluated and no best model is kept\n",
               options.data);
  }
  run_training(recipe, training_options(options.training, communicator, signals), signals);
}

}  // namespace

void add_click_train_command(CLI::App& clicks) {
  auto options = std::make_shared<ClickTrainOptions>();
  CLI::App* command =
      clicks.add_subcommand("train", "Train a click model on shards made by 'comera clicks data'");
  add_training_options(*command, options->training);
  command
      ->add_option("--data", options->data,
                   "Train on these shards instead of the recipe's data.train and data.validation")
      ->type_name("DIR");
  command->footer(
      "Examples:\n"
      "  comera clicks data day_0.gz --format criteo --output shards\n"
      "  comera clicks train dlrm_small --data shards --output runs/clicks\n"
      "To use several processes: mpirun -np 4 comera clicks train ... (docs/guide/scaling.md).\n"
      "Ctrl-C, SIGTERM, SIGUSR1 or a closed terminal saves a checkpoint and stops. Continue with comera "
      "resume. best.h5 is the model with the lowest held-out log loss.");
  command->callback([options] {
    run_in_job(
        [&](Communicator& communicator, StopSignals& signals) { train(*options, communicator, signals); });
  });
}

}  // namespace comera::cli
