#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/commands/commands.h"
#include "cli/run_training.h"
#include "cli/training/finetune_seeds.h"
#include "cli/training/finetune_task.h"
#include "cli/training/student.h"
#include "kernels/core/console.h"
#include "training/inference/trained_model.h"

namespace comera::cli {

namespace {

struct DistillOptions : FinetuneOptions {
  StudentOptions student;
  std::vector<std::int64_t> seeds;
};

std::string quoted(const std::filesystem::path& path) { return fmt::format("\"{}\"", path.string()); }

// A student of vectors, unless the teacher has been tuned for another task.
bool learns_vectors(const Recipe& teacher) {
  return teacher.model.head == HeadKind::mlm || teacher.model.head == HeadKind::contrastive;
}

// Weaker than --set.
std::vector<std::string> settings_for(const Recipe& teacher, const std::filesystem::path& checkpoint) {
  std::vector<std::string> settings = {"distillation.teacher=" + quoted(checkpoint), "model.dropout=0",
                                       "model.attention_dropout=0"};
  if (!learns_vectors(teacher)) settings.emplace_back("distillation.logits=1");
  return settings;
}

// The options of the fine-tuning that this is: the student's weights, the recipe, and the teacher.
FinetuneOptions with_student(const DistillOptions& options, Communicator& communicator) {
  FinetuneOptions own = options;
  TrainingCommandOptions& training = own.training;
  if (!options.table.given())
    throw UsageError("there is nothing to learn from: give texts, a table or a text file, with --input FILE");
  const std::filesystem::path checkpoint = teacher_checkpoint(options.student, training.output, communicator);
  const TrainedModel found = find_trained_model(checkpoint);
  const Recipe teacher = parse_stored_recipe(found.recipe, checkpoint.string(), {});
  if (training.from.empty())
    training.from = student_like(checkpoint, options.student, training.output, communicator).string();
  if (training.recipe.file.empty()) training.recipe.file = learns_vectors(teacher) ? "distill" : "table";
  const std::vector<std::string> settings = settings_for(teacher, checkpoint);
  training.recipe.overrides.insert(training.recipe.overrides.begin(), settings.begin(), settings.end());
  return own;
}

void distill(const DistillOptions& options, Communicator& communicator, StopSignals& signals) {
  const FinetuneOptions own = with_student(options, communicator);
  if (!options.seeds.empty()) return finetune_seeds(own, seeds_of(options.seeds), communicator, signals);
  const FinetuneTask task = finetune_task(own);
  if (communicator.first() && !task.description.empty()) {
    print_out("{}\n", task.description);
    flush_output();
  }
  TrainingOptions training = training_options(own.training, communicator, signals);
  training.finetune = true;
  run_training(task.recipe, training, signals);
}

}  // namespace

void add_distill_command(CLI::App& program) {
  auto options = std::make_shared<DistillOptions>();
  CLI::App* command = program.add_subcommand("distill", "Train a small student on the answers of a teacher");
  command
      ->add_option("teacher", options->student.teacher,
                   "The model to learn from: a checkpoint, a run's folder, or a folder of Hugging Face's "
                   "transformers or sentence-transformers")
      ->required()
      ->type_name("TEACHER");
  add_training_options(*command, options->training)
      ->required(false)
      ->description("A TOML file, or the name of a built-in recipe (default: by the teacher's head)");
  add_student_options(*command, options->student);
  command->add_flag(
      "--scratch", options->training.scratch,
      "Take only the student's shapes and tokenizer from --from or the teacher, and begin with random "
      "weights");
  add_table_options(*command, options->table);
  command
      ->add_option(
          "--seeds", options->seeds,
          "Train with this many seeds, or with these, in OUTPUT/seed-N; repeat the command to continue")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("N or N,...");
  command->footer(
      "Examples:\n"
      "  comera distill all-MiniLM-L6-v2 --input sentences.tsv --output runs/student\n"
      "  comera distill runs/tuned --input train.tsv --validation dev.tsv \\\n"
      "    --parameters 2000000 --output runs/student\n"
      "The student begins with the teacher's weights as tensor trains, unless --from names another model "
      "(docs/guide/distillation.md).");
  command->callback([options] {
    run_in_job(
        [&](Communicator& communicator, StopSignals& signals) { distill(*options, communicator, signals); });
  });
}

}  // namespace comera::cli
