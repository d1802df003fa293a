#pragma once

#include <string>

#include "cli/options/table_options.h"
#include "cli/options/training_options.h"

namespace comera::cli {

struct FinetuneOptions {
  TrainingCommandOptions training;
  TableOptions table;
  bool writes = true;  // whether it needs a folder for the run
};

struct FinetuneTask {
  Recipe recipe;
  std::string description = {};  // for people; empty if the recipe says what to learn, or its run is resumed
};

// The recipe of `comera finetune`. Without RECIPE it is `table`, fitted to the model of --from and to the
// table of --input, or that of the run in the output folder if it is resumed. UsageError if options are
// missing or contradict each other; errors of with_table().
FinetuneTask finetune_task(const FinetuneOptions& options);

}  // namespace comera::cli
