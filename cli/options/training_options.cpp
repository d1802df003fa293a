#include "cli/options/training_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <optional>

#include "checkpoints/checkpoint_directory.h"
#include "checkpoints/checkpoint_file.h"
#include "cli/options/choice.h"
#include "cli/options/device_option.h"
#include "cli/options/number_checks.h"
#include "cli/precision_note.h"
#include "kernels/backends/processors.h"
#include "storage/folder.h"
#include "training/inference/trained_model.h"

namespace comera::cli {

std::optional<Recipe> recipe_of_run(const std::filesystem::path& run,
                                    const std::vector<std::string>& overrides) {
  std::error_code code;
  const std::filesystem::path file = run / "recipe.toml", checkpoints = run / "checkpoints";
  if (!std::filesystem::exists(checkpoints, code)) return std::nullopt;  // the file does not belong to a run
  try {
    return load_recipe(file, overrides);
  } catch (const Error&) {
    const auto newest = find_latest(checkpoints, ResumeMode::newest_to_read);
    if (!newest) return std::nullopt;
    return parse_stored_recipe(CheckpointReader(newest->path).text("/recipe", "toml"), newest->path.string(),
                               overrides);
  }
}

namespace {

// Whether a model given by its checkpoint or by its run's folder is that of this checkpoint.
bool is_model_of(const std::filesystem::path& named, const std::filesystem::path& checkpoint) {
  const auto plain = [](const std::filesystem::path& path) {
    std::error_code code;
    std::filesystem::path whole = std::filesystem::weakly_canonical(storage::from_root(path), code);
    if (code) whole = storage::from_root(path).lexically_normal();
    return whole.has_filename() ? whole : whole.parent_path();
  };
  const std::filesystem::path asked = plain(named), begun = plain(checkpoint);
  return asked == begun || asked == begun.parent_path() ||
         (begun.parent_path().filename() == "checkpoints" && asked == begun.parent_path().parent_path());
}

// For a run that was started with a relative path: its base is unknown, so its names must be the last ones of
// the requested path.
bool may_be_model_of(const std::filesystem::path& named, const std::filesystem::path& checkpoint) {
  if (checkpoint.is_absolute()) return false;
  const auto ends_with = [&](const std::filesystem::path& file) {
    auto mine = checkpoint.lexically_normal().string();
    while (mine.starts_with("../")) mine.erase(0, 3);
    return ("/" + file.lexically_normal().string()).ends_with("/" + mine);
  };
  std::error_code code;
  const auto whole = std::filesystem::weakly_canonical(storage::from_root(named), code);
  return !code && (ends_with(whole) || ends_with(whole / checkpoint.filename()) ||
                   ends_with(whole / "checkpoints" / checkpoint.filename()));
}

// The origin of a run in the output directory that is to be resumed: it is not searched again, and cannot
// change.
struct Origin {
  TrainedModel trained;
  std::string recipe_file;  // for messages
};
std::optional<Origin> begun_with(const TrainingCommandOptions& options) {
  if (options.resume == "never" || options.scratch) return std::nullopt;
  const std::filesystem::path run =
      options.output.empty() ? run_output(options.recipe.path(), options.recipe.overrides) : options.output;
  const std::optional<Recipe> recipe = run.empty() ? std::nullopt : recipe_of_run(run);
  if (!recipe) return std::nullopt;
  TrainedModel trained;
  trained.recipe = to_toml(*recipe);
  trained.checkpoint = recipe->run.initial_checkpoint;
  if (trained.checkpoint.empty() ||
      !(is_model_of(options.from, trained.checkpoint) || may_be_model_of(options.from, trained.checkpoint)))
    throw UsageError(fmt::format(
        "the run in {} was started from {}, not --from {}; omit it, or choose another --output", run.string(),
        trained.checkpoint.empty() ? "random weights" : trained.checkpoint.string(), options.from));
  std::error_code code;
  trained.tokenizer = run / "tokenizer.model";
  if (!std::filesystem::exists(trained.tokenizer, code))
    trained.tokenizer = find_trained_model(options.from).tokenizer;
  return Origin{trained, (run / "recipe.toml").string()};
}

// A run that is resumed keeps its number format.
void settle_precision(Recipe& recipe, const TrainingCommandOptions& options) {
  if (recipe.precision.compute != Compute::automatic) return;
  const std::optional<Recipe> begun = options.resume == "never" || recipe.run.output.empty()
                                          ? std::nullopt
                                          : recipe_of_run(recipe.run.output);
  if (begun) return static_cast<void>(recipe.precision.compute = begun->precision.compute);
  choose_precision(recipe);
}

}  // namespace

CLI::Option* add_training_options(CLI::App& command, TrainingCommandOptions& options) {
  CLI::Option* recipe = add_recipe_options(command, options.recipe);
  command
      .add_option("--from", options.from,
                  "Start from the weights of this checkpoint or run's folder. Missing [model] keys, and "
                  "[tensorized] if the recipe has no such section, are taken from it as well")
      ->type_name("MODEL");
  command
      .add_option("--output", options.output,
                  "Write the run to this folder instead of the recipe's run.output")
      ->type_name("DIR");
  add_device_option(command, options.device);
  command.add_option("--graph", options.graph, "Record each step on a GPU once and replay it (CUDA graphs)")
      ->check(one_of({"on", "off"}));
  command
      .add_option("--resume", options.resume,
                  "never: start a run in a new folder; auto: continue a stopped run in the folder, or start "
                  "one; always: continue a stopped run")
      ->check(one_of({"never", "auto", "always"}))
      ->capture_default_str();
  command.add_flag("--use-older-checkpoint", options.use_older,
                   "If the newest checkpoint is damaged, report it, rename it to NAME.damaged and resume "
                   "from the one before");
  command.add_option("--stop-after", options.stop_after, "Save a checkpoint and stop after this step")
      ->check(positive_number);
  return recipe;
}

void run_in_job(const TrainingCommand& command) {
  StopSignals signals;  // before any other thread
  const std::unique_ptr<Communicator> job = join_job();
  Communicator& communicator = job ? *job : one_process();
  if (communicator.alone()) return command(communicator, signals);
  if (!communicator.first()) signals.silence();
  try {
    command(communicator, signals);
  } catch (...) {
    communicator.fail_with_exception();
  }
}

Recipe load_training_recipe(const TrainingCommandOptions& options) {
  std::optional<Origin> origin;
  if (!options.from.empty()) origin = begun_with(options);
  if (!options.from.empty() && !origin) {
    const TrainedModel trained = find_trained_model(options.from);
    origin = {trained, trained.checkpoint.string()};
    // Scores are standardised by those of the new data; weights follow (initialise_from).
    Recipe base = parse_stored_recipe(trained.recipe, origin->recipe_file);
    if (base.model.score_mean || base.model.score_std) {
      base.model.score_mean.reset();
      base.model.score_std.reset();
      origin->trained.recipe = to_toml(base);
    }
  }
  std::vector<std::string> overrides = options.recipe.overrides;
  if (origin && options.defaults) {
    const std::vector<std::string> weaker =
        options.defaults(parse_stored_recipe(origin->trained.recipe, origin->recipe_file));
    overrides.insert(overrides.begin(), weaker.begin(), weaker.end());
  }
  Recipe recipe =
      load_recipe(options.recipe.path(), overrides,
                  origin ? BaseRecipe{origin->trained.recipe, origin->recipe_file} : BaseRecipe());
  if (origin) {
    // Absolute, since a resumed run may be requested from another folder.
    if (!options.scratch)
      recipe.run.initial_checkpoint =
          storage::from_root(origin->trained.checkpoint).lexically_normal().string();
    if (recipe.data.tokenizer.empty() && !origin->trained.tokenizer.empty())
      recipe.data.tokenizer = storage::from_root(origin->trained.tokenizer).lexically_normal().string();
  }
  if (!options.output.empty()) recipe.run.output = options.output;
  if (!options.device.empty()) recipe.run.device = options.device;
  if (!options.graph.empty()) recipe.run.graphs = options.graph == "on";
  require_device(recipe.run.device);  // before data are read or made
  settle_precision(recipe, options);
  return recipe;
}

Recipe load_encoder_recipe(const TrainingCommandOptions& options) {
  Recipe recipe = load_training_recipe(options);
  refuse_click_model(recipe, options.recipe.path());
  return recipe;
}

TrainingOptions training_options(const TrainingCommandOptions& options, Communicator& communicator,
                                 const StopSignals& signals) {
  TrainingOptions training;
  training.communicator = &communicator;
  if (options.resume == "auto")
    training.mode = RunMode::automatic;
  else if (options.resume == "always")
    training.mode = RunMode::resume;
  if (options.use_older) training.resume = ResumeMode::newest_valid;
  training.stop_after = options.stop_after;
  training.stop_requested = [&signals] { return signals.requested(); };
  return training;
}

}  // namespace comera::cli
