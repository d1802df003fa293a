#pragma once

#include <cstdint>

#include "cli/options/corpus_options.h"
#include "distributed/communicator.h"
#include "recipes/recipe.h"
#include "training/run/run_directory.h"

namespace comera::cli {

// The training input of `pretrain --input`: a corpus from which OUTPUT/data/shards is made and, unless the
// recipe names a tokenizer, OUTPUT/data/tokenizer.model.
struct RunInput {
  CorpusInput corpus;
  std::int32_t vocabulary = 0;  // 0: as many as the recipe's model takes, else 8,192
  double held_out = 0.02;       // fraction of the documents

  bool given() const { return !corpus.inputs.empty(); }
};

// Returns --input.
CLI::Option* add_run_input_options(CLI::App& command, RunInput& input);

// The shards of such a run.
std::filesystem::path run_shards(const std::filesystem::path& run);
// Shards made by --input lie in the run's folder and move with it: updates the recipe's paths accordingly.
void follow_run_shards(const std::filesystem::path& run, DataSection& data);

// The vocabulary size of the tokenizer that would be trained for this recipe.
std::int32_t vocabulary_for(const Recipe& recipe, const RunInput& input);

// UsageError if --input conflicts with the recipe.
void check_run_input(const Recipe& recipe);

// The recipe with the data made from the input, by process 0 of the job. Data made earlier from the same
// input, for instance before the run was stopped, are reused; those of a killed command are made again.
// UsageError if the recipe names training data, or the folder's data are from another input; after an error
// the folder contains no data.
Recipe make_run_data(Recipe recipe, const RunInput& input, RunMode mode, Communicator& communicator);

}  // namespace comera::cli
