#include "cli/training/finetune_plan.h"

#include <fmt/format.h>

#include "cli/run_training.h"
#include "cli/training_plan.h"
#include "kernels/core/console.h"
#include "training/inference/trained_model.h"
#include "training/resume/checkpoint_recipe.h"
#include "training/resume/checkpoint_tokenizer.h"
#include "training/tasks/sequence_task.h"

namespace comera::cli {

void plan_finetuning(const FinetuneOptions& options, const Communicator& communicator) {
  if (!communicator.alone()) throw UsageError("--dry-run runs in one process; start it without mpirun");
  const FinetuneTask task = finetune_task(options);
  if (!task.description.empty()) print_out("{}\n", task.description);
  flush_output();
  Recipe recipe = resolve_task(task.recipe);
  if (!recipe.run.initial_checkpoint.empty())
    take_ranks(recipe, *find_trained_model(recipe.run.initial_checkpoint).reader);
  if (recipe.run.output.empty()) recipe.run.output = "RUN";  // nothing is written there
  require_training_keys(recipe);
  const data::Tokenizer tokenizer = load_tokenizer(recipe.data.tokenizer);
  print_training_plan(recipe,
                      {.vocabulary = tokenizer.vocabulary(), .tokenizer = &tokenizer, .finetune = true}, 1);
  print_out("nothing was written\n");
}

}  // namespace comera::cli
