#include "cli/training_options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <optional>

#include "checkpoints/checkpoint_directory.h"
#include "checkpoints/checkpoint_file.h"
#include "cli/device_option.h"
#include "cli/number_checks.h"
#include "kernels/core/console.h"
#include "reports/model_report.h"
#include "reports/number_text.h"
#include "storage/folder.h"
#include "training/trained_model.h"

namespace comera::cli {

namespace {

double mebibytes(double bytes) { return bytes / 1048576; }

void print_memory(TrainingRun& run) {
  const Allocator& allocator = run.engine().allocator();
  const Arena::Plan& plan = run.engine().arena_plan();
  const auto peak = [&](MemoryKind kind) { return mebibytes(static_cast<double>(allocator.use(kind).peak)); };
  put("peak memory      parameters {:.1f}, gradients {:.1f}, optimizer {:.1f}, activations {:.1f}, workspace "
      "{:.1f} "
      "MiB\n",
      peak(MemoryKind::parameters), peak(MemoryKind::gradients), peak(MemoryKind::optimizer),
      mebibytes(static_cast<double>(plan.saved)),
      mebibytes(static_cast<double>(plan.total - plan.saved)) + peak(MemoryKind::workspace));
}

}  // namespace

namespace {

// The recipe in a run's folder, or if it was lost or is damaged, that of its newest checkpoint.
std::optional<Recipe> recipe_of_run(const std::filesystem::path& run) {
  std::error_code code;
  const std::filesystem::path file = run / "recipe.toml", checkpoints = run / "checkpoints";
  if (!std::filesystem::exists(checkpoints, code)) return std::nullopt;  // the file is somebody else's
  try {
    return load_recipe(file, {});
  } catch (const Error&) {
    const auto newest = find_latest(checkpoints, ResumeMode::newest_to_read);
    if (!newest) return std::nullopt;
    return parse_stored_recipe(CheckpointReader(newest->path).text("/recipe", "toml"), newest->path.string());
  }
}

// Whether a model that is named by its checkpoint or by its run's folder is that of this checkpoint.
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

// Of a run that was begun with a path that was not from the root: from where is not known, so that its names
// must be the last ones of what is asked for.
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

// What a run in the output directory, which is to be resumed, was begun with: it is not looked for again, and
// cannot become another.
struct Origin {
  TrainedModel trained;
  std::string recipe_file;  // for messages
};
std::optional<Origin> begun_with(const TrainingCommandOptions& options) {
  if (options.resume == "never") return std::nullopt;
  const std::filesystem::path run =
      options.output.empty() ? run_output(options.recipe.file, options.recipe.overrides) : options.output;
  const std::optional<Recipe> recipe = run.empty() ? std::nullopt : recipe_of_run(run);
  if (!recipe) return std::nullopt;
  TrainedModel trained;
  trained.recipe = to_toml(*recipe);
  trained.checkpoint = recipe->run.initial_checkpoint;
  if (trained.checkpoint.empty() ||
      !(is_model_of(options.from, trained.checkpoint) || may_be_model_of(options.from, trained.checkpoint)))
    throw UsageError(fmt::format(
        "the run in {} was begun with {}, not --from {}; leave it out or give another --output", run.string(),
        trained.checkpoint.empty() ? "random weights" : trained.checkpoint.string(), options.from));
  std::error_code code;
  trained.tokenizer = run / "tokenizer.model";
  if (!std::filesystem::exists(trained.tokenizer, code))
    trained.tokenizer = find_trained_model(options.from).tokenizer;
  return Origin{trained, (run / "recipe.toml").string()};
}

}  // namespace

void add_training_options(CLI::App& command, TrainingCommandOptions& options) {
  add_recipe_options(command, options.recipe);
  command.add_option(
      "--from", options.from,
      "A checkpoint or a run's directory whose weights the run begins with; it also gives what "
      "the recipe leaves out of [model], and [tensorized] if the recipe has none");
  command.add_option("--output", options.output, "The run's directory, instead of the recipe's run.output");
  add_device_option(command, options.device);
  command.add_option("--graph", options.graph, "on: record a step on a GPU once and replay it; off: never")
      ->check(CLI::IsMember({"on", "off"}));
  command
      .add_option("--resume", options.resume,
                  "never: the directory must be new; auto: go on where a stopped run in it stands; always: "
                  "there must be one")
      ->check(CLI::IsMember({"never", "auto", "always"}))
      ->capture_default_str();
  command.add_flag(
      "--use-older-checkpoint", options.use_older,
      "If the newest checkpoint is damaged, say so, rename it to NAME.damaged and resume from the one "
      "before it");
  command.add_option("--stop-after", options.stop_after, "Save and stop after this step")
      ->check(positive_number);
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
  }
  Recipe recipe =
      load_recipe(options.recipe.file, options.recipe.overrides,
                  origin ? BaseRecipe{origin->trained.recipe, origin->recipe_file} : BaseRecipe());
  if (origin) {
    // From the root, since a resumed run may be asked for from another folder.
    recipe.run.initial_checkpoint =
        storage::from_root(origin->trained.checkpoint).lexically_normal().string();
    if (recipe.data.tokenizer.empty()) recipe.data.tokenizer = origin->trained.tokenizer.string();
  }
  if (!options.output.empty()) recipe.run.output = options.output;
  if (!options.device.empty()) recipe.run.device = options.device;
  if (!options.graph.empty()) recipe.run.graphs = options.graph == "on";
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

void print_costs(TrainingRun& run, const TrainingOutcome& outcome) {
  const std::int64_t parameters = run.engine().model().parameters().count();
  const std::int64_t dense = dense_parameters(run.config());
  if (outcome.tokens_per_second > 0) put("speed            {:.0f} tokens/s\n", outcome.tokens_per_second);
  const bool is_dense = parameters == dense;
  if (is_dense)
    put("parameters       {}, all dense\n", parameters);
  else
    put("parameters       {} against {} of the dense twin: {}\n", parameters, dense,
        times_text(dense, parameters));
  std::error_code code;  // somebody may have taken the file away
  const auto bytes = std::filesystem::file_size(outcome.checkpoint, code);
  const double size = code ? 0 : static_cast<double>(bytes);
  // A checkpoint is the parameters and two moments for each, or less of what Muon and GaLore update.
  const OptimizerKind optimizer = run.recipe().optim.kind;
  const bool less = optimizer == OptimizerKind::muon || optimizer == OptimizerKind::galore;
  const double dense_size = (optimizer == OptimizerKind::galore ? 1.0
                             : less                             ? 2.0
                                                                : 3.0) *
                            static_cast<double>(dense) * size_of(run.engine().model().parameters().dtype());
  put("checkpoint       {:.1f} MiB with optimizer state{}\n", mebibytes(size),
      is_dense ? ""
               : fmt::format("; the dense twin's would be {}{:.1f} MiB", less ? "at least " : "",
                             mebibytes(dense_size)));
  print_memory(run);
  if (outcome.skipped > 0)
    put("skipped          {} of {} steps, which were not finite\n", outcome.skipped, outcome.step);
  put("saved            {}\n", outcome.checkpoint.string());
}

void print_stopped(const TrainingRun& run, const TrainingOutcome& outcome) {
  const std::string skipped =
      outcome.skipped > 0 ? fmt::format(", {} of them skipped, which were not finite", outcome.skipped) : "";
  put("stopped at step {} of {}{}; saved in {}\ngo on with the same command and --resume auto\n",
      outcome.step, run.total_steps(), skipped, outcome.checkpoint.string());
}

}  // namespace comera::cli
