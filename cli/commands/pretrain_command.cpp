#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>

#include "cli/commands/commands.h"
#include "cli/options/number_checks.h"
#include "cli/options/training_data_options.h"
#include "cli/options/training_options.h"
#include "cli/run_input.h"
#include "cli/run_training.h"
#include "cli/training/rate_finding.h"
#include "cli/training_plan.h"
#include "kernels/core/console.h"
#include "reports/number_text.h"
#include "training/resume/checkpoint_tokenizer.h"

namespace comera::cli {

namespace {

struct PretrainOptions {
  TrainingCommandOptions training;
  RunInput input;
  TrainingDataOptions data;
  double hours = 0;  // 0: as in the recipe
  bool dry_run = false;
  RateFinding rates;
};

Recipe recipe_of(const PretrainOptions& options) {
  TrainingCommandOptions training = options.training;
  if (options.hours > 0) training.recipe.overrides.push_back(fmt::format("run.max_hours={}", options.hours));
  Recipe recipe = load_encoder_recipe(training);
  set_data(recipe, options.data);
  if (!is_pretraining(recipe.model.head))
    throw UsageError(
        "this recipe's model has no masked-language head (model.head), so that it cannot be pretrained; use "
        "comera finetune, or --set model.head=mlm or model.head=replaced_tokens");
  return recipe;
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
  add_rate_finding(*command, options->rates)->excludes(input)->excludes(dry);
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
      if (options->rates.asked)
        find_rate(
            options->rates, options->training, false, [&] { return recipe_of(*options); }, communicator,
            signals);
      else if (options->dry_run)
        dry_run(*options, communicator);
      else
        pretrain(*options, communicator, signals);
    });
  });
}

}  // namespace comera::cli
