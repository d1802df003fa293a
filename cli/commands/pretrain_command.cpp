#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>

#include "cli/commands/commands.h"
#include "cli/options/number_checks.h"
#include "cli/options/output_options.h"
#include "cli/options/training_data_options.h"
#include "cli/options/training_options.h"
#include "cli/run_input.h"
#include "cli/run_training.h"
#include "cli/training_plan.h"
#include "kernels/core/console.h"
#include "reports/number_text.h"
#include "storage/durable_file.h"
#include "training/rates/rate_search.h"
#include "training/resume/checkpoint_tokenizer.h"

namespace comera::cli {

namespace {

struct PretrainOptions {
  TrainingCommandOptions training;
  RunInput input;
  TrainingDataOptions data;
  double hours = 0;  // 0: as in the recipe
  bool dry_run = false;
  bool find_rate = false;
  double minutes = 5;
  std::int64_t trial_steps = 0;
  std::filesystem::path plot;
};

Recipe recipe_of(const PretrainOptions& options) {
  TrainingCommandOptions training = options.training;
  if (options.hours > 0) training.recipe.overrides.push_back(fmt::format("run.max_hours={}", options.hours));
  Recipe recipe = load_encoder_recipe(training);
  set_data(recipe, options.data);
  return recipe;
}

void find_rate(const PretrainOptions& options, const Communicator& communicator, StopSignals& signals) {
  if (!communicator.alone())
    throw UsageError("--find-rate runs in one process; its rates hold for several as well");
  if (options.training.resume != "never" || options.training.use_older || options.training.stop_after > 0)
    throw UsageError(
        "--find-rate always starts from the beginning and saves nothing; omit --resume, "
        "--use-older-checkpoint and --stop-after");
  if (!options.plot.empty()) {
    if (options.plot.extension() != ".svg")
      throw UsageError(
          fmt::format("{}: --plot writes SVG; give the file a name in .svg", options.plot.string()));
    prepare_output(options.plot);
  }
  const Recipe recipe = recipe_of(options);
  signals.begin();
  const RateReport report = find_rates(
      recipe, {.minutes = options.minutes, .steps = options.trial_steps, .stop_requested = [&signals] {
                 return signals.requested();
               }});
  print_out("{}", describe(report));
  if (options.plot.empty()) return;
  if (report.stopped) {
    print_out("{} was not written\n", options.plot.string());
    return;
  }
  storage::write_file_durably(options.plot, svg_of(plot_of(report, recipe.phases[0].learning_rate)));
  print_out("saved    {}\n", options.plot.string());
}

// From existing data; for data yet to be made, the size is estimated.
PlannedData planned_data(const Recipe& recipe, const PretrainOptions& options,
                         const std::optional<data::Tokenizer>& tokenizer) {
  if (!options.input.given()) return {.vocabulary = tokenizer->vocabulary(), .tokenizer = &*tokenizer};
  constexpr double bytes_per_token = 3.3;  // for source code with about ten thousand pieces
  const auto corpus = open_corpus(options.input.corpus);
  {
    CorpusProgress progress("reading");
    data::Document document;
    while (corpus->next(document)) progress.update(corpus->counts().documents, corpus->counts().bytes);
  }
  print_corpus_counts(corpus->counts());
  if (corpus->counts().documents == 0) throw Error(data::nothing_was_kept(corpus->counts()));
  const double tokens = static_cast<double>(corpus->counts().bytes) / bytes_per_token;
  const std::int64_t vocabulary = tokenizer ? tokenizer->vocabulary() : vocabulary_for(recipe, options.input);
  print_out("\ntokens           about {} million, and a vocabulary of {}\n",
            fmt::format("{:.{}f}", tokens * 1e-6, tokens < 1e7 ? 2 : 0), grouped(vocabulary));
  return {.vocabulary = vocabulary, .tokens = tokens * (1 - options.input.held_out)};
}

void dry_run(const PretrainOptions& options, const Communicator& communicator) {
  if (!communicator.alone()) throw UsageError("--dry-run runs in one process; start it without mpirun");
  const Recipe recipe = recipe_of(options);
  if (options.input.given()) check_run_input(recipe);
  std::optional<data::Tokenizer> tokenizer;
  if (!recipe.data.tokenizer.empty()) tokenizer = load_tokenizer(recipe.data.tokenizer);
  if (!options.input.given()) require_pretraining_keys(recipe);
  print_training_plan(recipe, planned_data(recipe, options, tokenizer), 1);
  print_out("nothing was written\n");
}

// Prints what will be done, unless it resumes a run that has printed it.
void make_data(Recipe& recipe, const TrainingOptions& training, const PretrainOptions& options,
               Communicator& communicator) {
  recipe = make_run_data(recipe, options.input, training.mode, communicator);
  if (!communicator.first() || recipe_of_run(recipe.run.output)) return;
  const data::Tokenizer tokenizer = load_tokenizer(recipe.data.tokenizer);
  print_out("\n");
  print_training_plan(recipe, {.vocabulary = tokenizer.vocabulary(), .tokenizer = &tokenizer},
                      communicator.world_size());
  print_out("\n");
  flush_output();
}

void pretrain(const PretrainOptions& options, Communicator& communicator, StopSignals& signals) {
  Recipe recipe = recipe_of(options);
  const TrainingOptions training = training_options(options.training, communicator, signals);
  if (options.input.given()) make_data(recipe, training, options, communicator);
  run_training(recipe, training, signals);
}

}  // namespace

void add_pretrain_command(CLI::App& program) {
  auto options = std::make_shared<PretrainOptions>();
  CLI::App* command = program.add_subcommand("pretrain", "Pretrain an encoder from a recipe");
  add_training_options(*command, options->training);
  CLI::Option* input = add_run_input_options(*command, options->input);
  add_training_data_options(*command, options->data)->excludes(input);
  command
      ->add_option(
          "--hours", options->hours,
          "Stop after this many hours; learning rates and phases are scheduled to end then (run.max_hours)")
      ->check(number_above_0(1e6));
  CLI::Option* dry = command->add_flag(
      "--dry-run", options->dry_run,
      "Only show the model's size, passes over the data, memory and time, measured here; write nothing");
  CLI::Option* find =
      command->add_flag("--find-rate", options->find_rate,
                        "Only find the best learning rates for each kind of parameter, by short trials");
  find->excludes(input)->excludes(dry);
  CLI::Option* minutes =
      command
          ->add_option("--minutes", options->minutes, "Take about this many minutes for all trials together")
          ->needs(find)
          ->check(number_above_0(1e6))
          ->capture_default_str();
  command
      ->add_option("--trial-steps", options->trial_steps,
                   "Train each trial for this many steps, instead of a number that fits --minutes")
      ->needs(find)
      ->excludes(minutes)
      ->check(positive_number);
  command->add_option("--plot", options->plot, "Draw the losses of the trials into this SVG file")
      ->needs(find)
      ->type_name("FILE.svg");
  command->footer(
      "Examples:\n"
      "  comera pretrain quickstart --input ~/src --output runs/first\n"
      "  comera pretrain quickstart --input ~/src --output runs/first \\\n"
      "    --hours 8 --dry-run\n"
      "  comera pretrain codebert_small --data shards/python shards/java \\\n"
      "    --tokenizer tok.model --output runs/small --resume auto\n"
      "To use several processes: mpirun -np 4 comera pretrain ... (docs/guide/scaling.md).\n"
      "Ctrl-C, SIGTERM, SIGUSR1 or a closed terminal (SIGHUP, except under nohup) saves a checkpoint and "
      "stops; SIGQUIT does not save. Continue with comera resume.");
  command->callback([options] {
    run_in_job([&](Communicator& communicator, StopSignals& signals) {
      if (options->find_rate)
        find_rate(*options, communicator, signals);
      else if (options->dry_run)
        dry_run(*options, communicator);
      else
        pretrain(*options, communicator, signals);
    });
  });
}

}  // namespace comera::cli
