#include <nlohmann/json.hpp>

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/commands/commands.h"
#include "cli/options/device_option.h"
#include "cli/options/number_checks.h"
#include "kernels/core/console.h"
#include "model/dlrm/click_micro_batches.h"
#include "training/tasks/click_model.h"
#include "training/tasks/click_task.h"

namespace comera::cli {

namespace {

struct ClickEvalOptions {
  std::string model, data, device = "auto";
  std::int64_t examples = 4096;
  bool train = false, json = false;
};

void evaluate(const ClickEvalOptions& options) {
  LoadedClickModel loaded(options.model, options.device);
  const std::string split = options.train ? "train" : "validation";
  const std::string folder = !options.data.empty() ? options.data
                             : options.train       ? loaded.recipe.data.train
                                                   : loaded.recipe.data.validation;
  if (folder.empty())
    throw UsageError("the model was trained without held-out data; give --data FOLDER of shards");
  const data::ClickShardSet examples(folder, split);
  loaded.require_same_encoding(examples.info().encoding, folder);
  StepEngine engine(loaded.model, loaded.processor);
  const data::ClickLoaderOptions micro_batches = loaded.micro_batches(options.examples);
  engine.set_micro_batches(ClickMicroBatches(loaded.model, micro_batches.capacity));
  data::ClickScores scores = *score_clicks(engine, examples, micro_batches, 0, {}, one_process());
  scores.set = fmt::format("{} on {}", options.model, folder);
  if (options.json)
    print_out("{}\n", json_text(metrics_of(scores)));
  else
    print_out("{}\n", data::describe(scores));
}

}  // namespace

void add_click_eval_command(CLI::App& clicks) {
  auto options = std::make_shared<ClickEvalOptions>();
  CLI::App* command = clicks.add_subcommand("eval", "Score a trained click model on encoded examples");
  command->add_option("model", options->model, "A checkpoint, or a run's folder (its best.h5)")
      ->required()
      ->type_name("MODEL");
  command
      ->add_option("--data", options->data,
                   "Score the validation split of these shards instead of the recipe's data.validation")
      ->type_name("DIR");
  command->add_flag("--train", options->train, "Score the training split instead");
  command->add_option("--batch-size", options->examples, "Compute this many examples at a time")
      ->check(positive_number)
      ->capture_default_str();
  add_device_option(*command, options->device);
  command->add_flag("--json", options->json, "Print the scores as one JSON object");
  command->footer(
      "Examples:\n"
      "  comera clicks eval runs/clicks --data tomorrow");
  command->callback([options] { evaluate(*options); });
}

}  // namespace comera::cli
