#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <vector>

#include "cli/commands/commands.h"
#include "cli/run_training.h"
#include "cli/training/finetune_plan.h"
#include "cli/training/finetune_seeds.h"
#include "cli/training/finetune_task.h"
#include "cli/training/rate_finding.h"
#include "kernels/core/console.h"
#include "storage/folder.h"

namespace comera::cli {

namespace {

struct FinetuneCommandOptions : FinetuneOptions {
  std::vector<std::int64_t> seeds;
  bool dry_run = false;
  RateFinding rates;
};

// A folder of several runs, of --seeds or of `comera glue`.
void refuse_folder_of_runs(const std::filesystem::path& output) {
  for (const char* file : {"from.json", "seeds.json", "glue.json"})
    if (!output.empty() && storage::exists(output / file))
      throw UsageError(
          fmt::format("--output {}: holds the runs of --seeds or of comera glue; repeat that command to "
                      "continue them, or "
                      "choose another folder",
                      output.string()));
}

void finetune(const FinetuneOptions& options, Communicator& communicator, StopSignals& signals) {
  refuse_folder_of_runs(options.training.output);
  const FinetuneTask task = finetune_task(options);
  if (communicator.first() && !task.description.empty()) {
    print_out("{}\n", task.description);
    flush_output();
  }
  TrainingOptions training = training_options(options.training, communicator, signals);
  training.finetune = true;
  run_training(task.recipe, training, signals);
}

}  // namespace

void add_finetune_command(CLI::App& program) {
  auto options = std::make_shared<FinetuneCommandOptions>();
  CLI::App* command = program.add_subcommand(
      "finetune", "Fine-tune a model on texts with a label or score, words, or questions");
  add_training_options(*command, options->training)
      ->required(false)
      ->description("A TOML file, or the name of a built-in recipe (default with --from: by --input)");
  add_table_options(*command, options->table);
  CLI::Option* seeds =
      command
          ->add_option(
              "--seeds", options->seeds,
              "Train with this many seeds, or with these, in OUTPUT/seed-N, and show the mean and deviation "
              "of the scores; repeat the command to continue")
          ->delimiter(',')
          ->allow_extra_args(false)
          ->type_name("N or N,...");
  CLI::Option* dry =
      command->add_flag("--dry-run", options->dry_run,
                        "Only show what would be learned, memory and time, measured here; write nothing");
  add_rate_finding(*command, options->rates)->excludes(dry)->excludes(seeds);
  dry->excludes(seeds);
  command->footer(
      "Examples:\n"
      "  comera finetune --from runs/first --input train.tsv --output runs/mine\n"
      "  comera finetune --from runs/first --input train.csv \\\n"
      "    --validation dev.csv --text title,body --label topic \\\n"
      "    --output runs/topics\n"
      "  comera finetune --from runs/first --input train.conll --output runs/names\n"
      "  comera finetune six_encoder_mnli --set task.folder=glue/MNLI \\\n"
      "    --set data.tokenizer=tokenizer.model --output runs/mnli\n"
      "The last starts from random weights, the others from a pretrained encoder. To use several processes: "
      "mpirun -np 4 comera finetune ... (docs/guide/scaling.md).\n"
      "Ctrl-C, SIGTERM, SIGUSR1 or a closed terminal (SIGHUP, except under nohup) saves a checkpoint and "
      "stops; SIGQUIT does not save. Continue with comera resume. best.h5 is the best model by task.metric.");
  command->callback([options] {
    run_in_job([&](Communicator& communicator, StopSignals& signals) {
      options->writes = !options->rates.asked && !options->dry_run;
      if (options->rates.asked)
        find_rate(
            options->rates, options->training, true, [&] { return finetune_task(*options).recipe; },
            communicator, signals);
      else if (options->dry_run)
        plan_finetuning(*options, communicator);
      else if (!options->seeds.empty())
        finetune_seeds(*options, seeds_of(options->seeds), communicator, signals);
      else
        finetune(*options, communicator, signals);
    });
  });
}

}  // namespace comera::cli
