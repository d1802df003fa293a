#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <memory>

#include "cli/commands/commands.h"
#include "cli/options/arguments.h"
#include "cli/options/device_option.h"
#include "cli/options/number_checks.h"
#include "cli/options/training_options.h"
#include "cli/run_input.h"
#include "cli/run_training.h"
#include "data/shards/sequence_set.h"
#include "kernels/backends/processors.h"
#include "kernels/core/console.h"
#include "storage/folder.h"
#include "training/logging/metrics.h"
#include "training/logging/progress.h"

namespace comera::cli {

namespace {

using Clock = std::chrono::steady_clock;

struct ResumeOptions {
  std::string run, device;
  std::vector<std::string> folders;  // --data
  std::vector<std::string> overrides;
  double hours = 0;  // 0: until the run's end
  std::int64_t stop_after = 0;
  bool use_older = false;
};

// The run's shards, which have moved: each of the sources by its name.
void move_data(DataSection& data, const std::vector<std::string>& folders) {
  if (folders.empty()) return;
  if (data.sources.empty()) {
    if (folders.size() > 1 || data.train.empty())
      throw UsageError(data.train.empty()
                           ? "--data is for runs on shards, and this one has none; for the table of a "
                             "fine-tuning: --set task.train=FILE"
                           : "--data: the run has one folder of shards; give its new place");
    data.train = folders[0];
    if (!data.validation.empty() && data::has_held_out(data.train)) data.validation = data.train;
    return;
  }
  std::vector<std::string> known;
  for (const DataSource& source : data.sources) known.push_back(source.folder);
  for (const std::string& folder : folders) {
    const std::string name = DataSource{.folder = folder, .weight = {}}.name();
    const auto moved = std::ranges::find(data.sources, name, &DataSource::name);
    if (moved == data.sources.end())
      throw UsageError(fmt::format("--data {}: the run has no source named {}; its folders are {}", folder,
                                   name, fmt::join(known, ", ")));
    moved->folder = folder;
  }
}

void require_data(const std::filesystem::path& run, const DataSection& data) {
  std::vector<std::string> folders = {data.train, data.validation};
  for (const DataSource& source : data.sources) folders.push_back(source.folder);
  for (const std::string& folder : folders)
    if (std::error_code code; !folder.empty() && !std::filesystem::exists(folder, code))
      throw UsageError(fmt::format(
          "{}: its data were in {}, where nothing is now; if they have moved: comera resume {} --data DIR",
          run.string(), folder, for_shell(run.string())));
}

// A checkpoint that was copied without its run.
[[noreturn]] void refuse_checkpoint(const std::filesystem::path& file) {
  throw UsageError(fmt::format(
      "{0}: is a file, and runs are resumed in their folders; to train on from this checkpoint's weights, "
      "without its optimizer state: comera pretrain RECIPE --from {1} --data DIR --output RUN",
      file.string(), for_shell(file.string())));
}

// The run's recipe. The folder may have been moved, and the run's original files may be gone.
Recipe recipe_to_resume(const ResumeOptions& options) {
  const std::filesystem::path run = options.run;
  std::error_code code;
  refuse_keys(options.overrides, {"run.output"}, "the run stays in its folder; omit it");
  if (std::filesystem::is_regular_file(run, code)) refuse_checkpoint(run);
  if (!std::filesystem::is_directory(run, code))
    throw UsageError(fmt::format("{}: no such run; give the run's folder (its --output)", run.string()));
  std::optional<Recipe> own = recipe_of_run(run, options.overrides);
  // If the user has changed the recipe, an error in it must be reported: no other recipe replaces it.
  if (own && storage::exists(run / "recipe.toml")) own = load_recipe(run / "recipe.toml", options.overrides);
  if (!own) {
    const bool is_prepared = std::filesystem::exists(run / "data" / "input.json", code);
    throw UsageError(fmt::format(
        "{}: {}", run.string(),
        storage::exists(run / "from.json")
            ? "holds several runs; repeat the command that began them (comera finetune --seeds, comera glue)"
        : storage::exists(run / "student.h5") || storage::exists(run / "teacher.h5")
            ? "has a student or its teacher, but no checkpoints yet: repeat the distill command that made "
              "them"
        : storage::exists(run / "answers.h5")
            ? "has a teacher's answers, but no checkpoints yet: repeat the distill command that made them"
        : is_prepared ? "has data, but no checkpoints yet: repeat the pretrain command that made them"
                      : "is not a run of comera: it has no checkpoints to resume from"));
  }
  Recipe recipe = *own;
  recipe.run.output = run.string();
  if (const auto tokenizer = run / "tokenizer.model";
      std::filesystem::exists(tokenizer, code) && !sets_key(options.overrides, "data.tokenizer"))
    recipe.data.tokenizer = tokenizer.string();
  follow_run_shards(run, recipe.data);
  move_data(recipe.data, options.folders);
  require_data(run, recipe.data);
  if (!options.device.empty()) recipe.run.device = options.device;
  require_device(recipe.run.device);  // before data are read
  return recipe;
}

// The run itself has logged its progress.
void say_end(const TrainingRun& run, const ResumeOptions& options) {
  const RunPlace place = run.place();
  const double pace = reach_of_metrics(std::filesystem::path(options.run) / "metrics.jsonl").seconds_per_step;
  const double left = pace * place.work_left;
  if (left <= 0) return;
  std::string text = fmt::format("in phase '{}'; at the current speed the run takes another {}, until {}",
                                 place.phase, duration_text(left), clock_text(left));
  if (options.hours > 0 && left > options.hours * 3600)
    text += fmt::format("; --hours ends it earlier, {}", clock_text(options.hours * 3600));
  log_info("{}\n", text);
}

void resume(const ResumeOptions& options, Communicator& communicator, StopSignals& signals) {
  const Recipe recipe = recipe_to_resume(options);
  TrainingOptions training;
  training.communicator = &communicator;
  training.finetune = !is_pretraining(recipe.model.head);
  training.mode = RunMode::resume;
  if (options.use_older) training.resume = ResumeMode::newest_valid;
  training.stop_after = options.stop_after;
  const auto end = Clock::now() + std::chrono::duration<double>(options.hours * 3600);
  training.stop_requested = [&signals, end, timed = options.hours > 0] {
    return signals.requested() || (timed && Clock::now() >= end);
  };
  run_training(recipe, training, signals, [&](const TrainingRun& run) { say_end(run, options); });
}

}  // namespace

void add_resume_command(CLI::App& program) {
  auto options = std::make_shared<ResumeOptions>();
  CLI::App* command = program.add_subcommand("resume", "Resume a stopped run");
  command->add_option("run", options->run, "The run's folder")->required()->type_name("RUN");
  command
      ->add_option("--data", options->folders,
                   "The run's shards are in this folder now; of several sources, each is found by its name")
      ->type_name("DIR");
  command
      ->add_option("--hours", options->hours,
                   "Save a checkpoint and stop after this many hours (default: at the run's end)")
      ->check(number_above_0(1e6));
  command
      ->add_option("--set", options->overrides,
                   "Set a key of the run's recipe, such as run.threads=2; may be repeated")
      ->allow_extra_args(false)
      ->type_name("KEY=VALUE");
  add_device_option(*command, options->device);
  command->add_flag("--use-older-checkpoint", options->use_older,
                    "If the newest checkpoint is damaged, report it, rename it to NAME.damaged and resume "
                    "from the one before (as run.use_older_checkpoint = true)");
  command->add_option("--stop-after", options->stop_after, "Save a checkpoint and stop after this step")
      ->check(positive_number);
  command->footer(
      "Examples:\n"
      "  comera resume runs/first\n"
      "  comera resume runs/first --hours 8\n"
      "  comera resume runs/first --data /data/shards");
  command->callback([options] {
    run_in_job(
        [&](Communicator& communicator, StopSignals& signals) { resume(*options, communicator, signals); });
  });
}

}  // namespace comera::cli
