#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands/commands.h"
#include "cli/options/device_option.h"
#include "cli/options/number_checks.h"
#include "cli/options/training_options.h"
#include "cli/training/run_of_several.h"
#include "data/batching/batch.h"
#include "data/tables/glue.h"
#include "kernels/backends/backends.h"
#include "kernels/core/console.h"
#include "kernels/core/terminal.h"
#include "recipes/changes.h"
#include "storage/durable_file.h"
#include "storage/folder.h"
#include "storage/json_file.h"
#include "storage/seal.h"
#include "storage/small_file.h"
#include "training/glue/glue_results.h"
#include "training/glue/glue_submission.h"
#include "training/inference/inference_engine.h"
#include "training/inference/trained_model.h"
#include "training/tasks/sequence_task.h"

namespace comera::cli {

namespace {

struct GlueCommandOptions {
  RecipeOptions recipe;
  std::string from, device;
  std::filesystem::path data, output;
  std::vector<std::string> tasks;
  std::int64_t seeds = 3, max_steps = 0;
  double small_epochs = 10;
  bool from_mnli = false, scratch = false;
};

// Tasks whose examples are most similar to those of MNLI.
bool learns_from_mnli(const std::string& task) { return task == "rte" || task == "mrpc" || task == "stsb"; }

class GlueBenchmark {
 public:
  GlueBenchmark(const GlueCommandOptions& options, Communicator& communicator, StopSignals& signals)
      : options_(options), communicator_(communicator), signals_(signals) {}

  void run() {
    const std::vector<std::string> tasks = find_tasks();
    if (options_.from_mnli) require_mnli(tasks);
    if (storage::exists(options_.output / "checkpoints"))
      throw UsageError(fmt::format("--output {}: is a run's folder; choose another folder, for several runs",
                                   options_.output.string()));
    storage::create_directories_durably(options_.output);
    keep_origin(options_.output, options_.from, options_.scratch);
    add_results_of_others(tasks);
    for (const std::string& task : tasks) {
      bool is_new = false;
      for (std::int64_t seed = 1; seed <= options_.seeds; ++seed) {
        const Ended ended = run_once(task, seed);
        if (ended == Ended::stopped) {
          print_out("{}stopped; repeat the command to continue\n",
                    table_.empty() ? "" : with_heading(stdout, table_.text()));
          return;
        }
        is_new = is_new || ended == Ended::now;
        if (ended == Ended::now) write_table();
      }
      write_submissions(task, is_new);
    }
    write_table();
    print_out("{}results in {}{}\n", with_heading(stdout, table_.text()),
              (options_.output / "glue.json").string(),
              storage::exists(options_.output / "submission")
                  ? ", predictions for GLUE's server in submission/ beside it"
                  : "");
    for (const std::string& note : notes_) log_info("note: {}\n", note);
  }

 private:
  enum class Ended : std::uint8_t { before, now, stopped };

  std::vector<std::string> find_tasks() {
    std::vector<std::string> asked;
    for (const std::string& given : options_.tasks) {
      asked.push_back(data::glue_task_named(given));
      static_cast<void>(data::glue_folder(asked.back()));
    }
    storage::refuse_missing(options_.data, "folder");
    std::vector<std::string> found, reasons;
    for (const std::string& name : data::glue_tasks_by_size()) {
      if (!asked.empty() && std::ranges::find(asked, name) == asked.end()) continue;
      const data::Task task = data::glue_task(name, options_.data / data::glue_folder(name));
      std::string missing;
      for (const auto* sets : {&task.train, &task.validation})
        for (const data::Task::Set& set : *sets)
          if (std::error_code code; missing.empty() && !std::filesystem::exists(set.file, code))
            missing = fmt::format("{} has no {}", (options_.data / data::glue_folder(name)).string(),
                                  set.file.filename().string());
      if (missing.empty()) {
        found.push_back(name);
      } else {
        table_.leave_out(name, missing);
        reasons.push_back(missing);
      }
    }
    if (found.empty() && !asked.empty())
      throw UsageError(fmt::format("{}; give --data the folder with the tasks' folders as published",
                                   fmt::join(reasons, ", ")));
    if (found.empty())
      throw UsageError(
          fmt::format("{}: has no files of these tasks; give the folder with MNLI, RTE and so on, each with "
                      "train.tsv and dev.tsv",
                      options_.data.string()));
    return found;
  }

  std::filesystem::path folder_of(const std::string& task, std::int64_t seed) const {
    return options_.output / "runs" / fmt::format("{}-{}", task, seed);
  }
  std::filesystem::path mnli_model(std::int64_t seed) const { return folder_of("mnli", seed) / "best.h5"; }

  // --from-mnli needs MNLI's models, from this call or an earlier one.
  void require_mnli(const std::vector<std::string>& tasks) const {
    if (tasks.front() == "mnli" || std::ranges::none_of(tasks, learns_from_mnli)) return;
    for (std::int64_t seed = 1; seed <= options_.seeds; ++seed)
      if (!has_result(folder_of("mnli", seed)))
        throw UsageError(fmt::format(
            "--from-mnli: {} is not a finished run of MNLI; add mnli to --tasks, with its files in {}",
            folder_of("mnli", seed).string(), options_.data.string()));
  }

  // The table covers everything in the folder, whatever --tasks says now.
  void add_results_of_others(const std::vector<std::string>& tasks) {
    for (const std::filesystem::path& run : storage::entries_of(options_.output / "runs")) {
      const std::string name = run.filename().string(), task = name.substr(0, name.rfind('-'));
      if (std::ranges::find(tasks, task) == tasks.end() && has_result(run)) table_.add(read_result(run));
    }
  }

  TrainingCommandOptions command_for(const std::string& task, std::int64_t seed) const {
    TrainingCommandOptions command;
    command.recipe.file = options_.recipe.file;
    command.from = options_.from;
    command.scratch = options_.scratch;
    if (options_.from_mnli && learns_from_mnli(task)) command.from = mnli_model(seed).string();
    command.output = folder_of(task, seed).string();
    command.resume = "auto";
    command.device = options_.device;
    command.recipe.overrides = {fmt::format("task.name=\"{}\"", task), fmt::format("run.seed={}", seed)};
    if (data::has_few_examples(task))
      command.recipe.overrides.push_back(fmt::format("phase.0.epochs={}", options_.small_epochs));
    // One number format for a folder, also where it is continued on another machine.
    if (const std::optional<GlueResult> known = any_result())
      command.recipe.overrides.push_back(
          fmt::format("precision.compute=\"{}\"", name_of(known->recipe.precision.compute)));
    const std::optional<GlueResult> same = any_result(task);  // also of an earlier version
    for (const std::string& scale :
         same ? score_settings(same->recipe.model) : begun_score_settings(folder_of(task, seed)))
      command.recipe.overrides.push_back(scale);
    for (const std::string& own : options_.recipe.overrides) command.recipe.overrides.push_back(own);
    return command;
  }

  // Of any task, or of this one.
  std::optional<GlueResult> any_result(const std::string& task = "") const {
    std::error_code code;
    for (const std::filesystem::path& run : storage::entries_of(options_.output / "runs", code))
      if (has_result(run))
        if (GlueResult result = read_result(run); task.empty() || result.task == task) return result;
    return std::nullopt;
  }

  Recipe recipe_for(const TrainingCommandOptions& command, const std::string& task) const {
    Recipe recipe = load_training_recipe(command);
    recipe.task.folder = (options_.data / data::glue_folder(task)).string();
    if (options_.max_steps > 0)
      for (PhaseSection& phase : recipe.phases) {
        phase.epochs.reset();
        phase.steps = std::min(phase.steps.value_or(options_.max_steps), options_.max_steps);
        phase.warmup_steps = std::min(phase.warmup_steps, *phase.steps);
      }
    return resolve_task(recipe);
  }

  Ended run_once(const std::string& task, std::int64_t seed) {
    const TrainingCommandOptions command = command_for(task, seed);
    const Recipe recipe = recipe_for(command, task);
    const bool is_new = !has_result(command.output);
    GlueResult result;
    if (!is_new) {
      result = read_result(command.output);
      require_settings(command.output, result.recipe, result.data, recipe, fingerprint_of_task(recipe));
    } else {
      log_info("{}, seed {} of {}\n", task, seed, options_.seeds);
      const auto outcome = train_one_of_several(recipe, recipe, fingerprint_of_task(recipe),
                                                training_options(command, communicator_, signals_), signals_);
      if (!outcome) return Ended::stopped;
      result = score_run(task, seed, recipe, *outcome);
      write_result(command.output, result);
    }
    table_.add(result);
    return is_new ? Ended::now : Ended::before;
  }

  GlueResult score_run(const std::string& task, std::int64_t seed, const Recipe& recipe,
                       const TrainingOutcome& outcome) const {
    GlueResult result{.task = task,
                      .seed = seed,
                      .numbers = {},
                      .best_step = outcome.best_step,
                      .steps = outcome.step,
                      .data = fingerprint_of_task(recipe),
                      .recipe = recipe};
    const std::vector<data::TaskScores> scores = score_model(outcome.best, recipe);
    for (const data::TaskScores& of_set : scores) result.examples += of_set.examples;
    if (recipe.task.kind == data::TaskKind::classification) result.majority = scores.front().majority;
    for (const data::GlueNumber& number : data::glue_numbers(task))
      result.numbers.push_back(
          std::ranges::find(scores, number.set, &data::TaskScores::set)->value(number.metric));
    return result;
  }

  // Existing files from the same run are kept. An unreadable test set is no reason to lose the other tasks.
  void write_submissions(const std::string& task, bool is_new) {
    std::vector<data::GlueTest> tests = data::glue_tests(task, options_.data);
    const std::filesystem::path folder = options_.output / "submission";
    const GlueResult& best = table_.best_of(task);
    const std::string run = folder_of(task, best.seed).filename().string();
    const std::filesystem::path file = options_.output / "submission.json";  // which run made which
    nlohmann::json made = nlohmann::json::object();
    if (storage::exists(file))
      made = storage::parse_json(storage::read_small_file(file, 1 << 20, "a note about predictions"),
                                 file.string() + ":");
    if (!made.is_object()) made = nlohmann::json::object();
    std::erase_if(tests, [&](const data::GlueTest& test) {
      return !is_new && storage::exists(folder / test.submission) &&
             made.value(test.submission, nlohmann::json()) == made_of(run, test.file);
    });
    if (tests.empty()) return;
    storage::create_directories_durably(folder);
    const LoadedModel loaded(folder_of(task, best.seed) / "best.h5", {}, {}, best.recipe.run.device);
    for (const data::GlueTest& test : tests) try {
        const std::int64_t unread =
            write_submission(loaded, test, best.recipe.phases.at(0).length, folder / test.submission);
        if (unread > 0)
          log_info("{}: {} rows cannot be read; they get the first label in {}\n", test.file.string(), unread,
                   test.submission);
        made[test.submission] = made_of(run, test.file);
        storage::write_file_durably(file, made.dump(2) + "\n");
      } catch (const Error& error) {
        notes_.push_back(fmt::format("no predictions {}: {}", test.submission, error.what()));
      }
  }

  static nlohmann::json made_of(const std::string& run, const std::filesystem::path& test) {
    return {{"run", run}, {"data", fingerprint_of_files({test})}};
  }

  void write_table() const {
    Json json = table_.json();
    json["from"] = options_.from;
    json["scratch"] = options_.scratch;
    storage::write_file_durably(options_.output / "glue.json", json.dump(2) + "\n");
    storage::write_file_durably(options_.output / "glue.txt", table_.text());
  }

  const GlueCommandOptions& options_;
  Communicator& communicator_;
  StopSignals& signals_;
  GlueTable table_;
  std::vector<std::string> notes_;
};

void glue(const GlueCommandOptions& options, Communicator& communicator, StopSignals& signals) {
  if (!communicator.alone())
    throw UsageError(
        "comera glue runs in one process; to use several, fine-tune single tasks (comera finetune)");
  refuse_keys(options.recipe.overrides,
              {"task.name", "task.folder", "task.train", "task.validation", "run.seed", "run.output"},
              "comera glue sets it for each task and seed; omit it");
  GlueBenchmark(options, communicator, signals).run();
}

}  // namespace

void add_glue_command(CLI::App& program) {
  auto options = std::make_shared<GlueCommandOptions>();
  options->recipe.file = "glue";
  CLI::App* command = program.add_subcommand(
      "glue", "Fine-tune a pretrained model on the GLUE tasks and make the score table");
  command
      ->add_option("--from", options->from, "Fine-tune this pretrained model: a checkpoint or a run's folder")
      ->required()
      ->type_name("MODEL");
  command
      ->add_option("--data", options->data,
                   "Folder with CoLA, MNLI, MRPC and so on, as published; tasks without files are skipped")
      ->required()
      ->type_name("DIR");
  command
      ->add_option("--output", options->output,
                   "Write the runs, the table and the predictions to this folder")
      ->required()
      ->type_name("DIR");
  command->add_option("--seeds", options->seeds, "Train each task with this many random seeds")
      ->check(positive_number)
      ->capture_default_str();
  command->add_option("--tasks", options->tasks, "Run these tasks only, for instance mnli,rte or SST-2")
      ->delimiter(',')
      ->type_name("TASK,...");
  CLI::Option* from_mnli = command->add_flag(
      "--from-mnli", options->from_mnli,
      "Start RTE, MRPC and STS-B from MNLI's model of the same seed instead of the pretrained one");
  command
      ->add_flag("--scratch", options->scratch,
                 "Train from random weights with the pretrained model's configuration and tokenizer, as a "
                 "baseline without pretraining")
      ->excludes(from_mnli);
  command->add_option("--recipe", options->recipe.file, "Fine-tune by this recipe")
      ->type_name("RECIPE")
      ->capture_default_str();
  command
      ->add_option("--set", options->recipe.overrides,
                   "Set a key of the recipe for all tasks, such as phase.0.epochs=5; may be repeated")
      ->allow_extra_args(false)
      ->type_name("KEY=VALUE");
  command
      ->add_option(
          "--small-epochs", options->small_epochs,
          "Epochs of the tasks with fewer than 10,000 training examples (CoLA, MRPC, RTE, STS-B, WNLI)")
      ->check(number_above_0(1e4))
      ->capture_default_str();
  command->add_option("--max-steps", options->max_steps, "Stop each run after this many steps, to try it out")
      ->check(positive_number);
  add_device_option(*command, options->device);
  command->footer(
      "Examples:\n"
      "  comera glue --from runs/first --data glue --seeds 3 --output runs/glue\n"
      "Repeat the command to continue after an interruption. OUTPUT/glue.json holds all scores, "
      "OUTPUT/submission the predictions of each task's best seed for GLUE's server "
      "(docs/guide/finetuning.md).");
  command->callback([options] {
    run_in_job(
        [&](Communicator& communicator, StopSignals& signals) { glue(*options, communicator, signals); });
  });
}

}  // namespace comera::cli
