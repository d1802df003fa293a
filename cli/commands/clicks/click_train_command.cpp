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
        fmt::format("{}: has no [dlrm], so that it is an encoder's recipe; comera pretrain and "
                    "comera finetune are for those",
                    options.training.recipe.path().string()));
  if (!options.data.empty()) {
    recipe.data.train = options.data;
    const auto has = [folder = std::filesystem::path(options.data)](const char* split) {
      return storage::exists(folder / data::shard_name(split, 0));
    };
    if (has("validation"))
      recipe.data.validation = options.data;
    else if (has("train") && recipe.data.validation.empty())
      log_info("note: {} has no held-out part, so that nothing is evaluated and no best model is kept\n",
               options.data);
  }
  run_training(recipe, training_options(options.training, communicator, signals), signals);
}

}  // namespace

void add_click_train_command(CLI::App& clicks) {
  auto options = std::make_shared<ClickTrainOptions>();
  CLI::App* command = clicks.add_subcommand("train", "Train a click model on what 'comera clicks data' made");
  add_training_options(*command, options->training);
  command
      ->add_option("--data", options->data,
                   "Folder of shards, instead of data.train and data.validation of the recipe")
      ->type_name("DIR");
  command->footer(
      "Example:\n"
      "  comera clicks data day_0.gz --format criteo --output shards\n"
      "  comera clicks train recipes/dlrm_small.toml --data shards --output runs/clicks\n"
      "Several processes: mpirun -np 4 comera clicks train ... (docs/guide/scaling.md)\n"
      "Ctrl-C, SIGTERM, SIGUSR1 or a closed terminal saves a checkpoint and stops; go on with comera resume. "
      "best.h5 is the model with the least held-out log loss.");
  command->callback([options] {
    run_in_job(
        [&](Communicator& communicator, StopSignals& signals) { train(*options, communicator, signals); });
  });
}

}  // namespace comera::cli
