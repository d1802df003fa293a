#pragma once

#include <cstdint>

#include "cli/options/corpus_options.h"
#include "distributed/communicator.h"
#include "recipes/recipe.h"
#include "training/run/run_directory.h"

namespace comera::cli {

// What `pretrain --input` trains on: a corpus of which OUTPUT/data/shards is made and, unless the recipe
// names a tokenizer, OUTPUT/data/tokenizer.model.
struct RunInput {
  CorpusInput corpus;
  std::int32_t vocabulary = 0;  // 0: as large as the recipe's model takes, else 8,192
  double held_out = 0.02;       // fraction of the documents

  bool given() const { return !corpus.inputs.empty(); }
};

// Gives --input.
CLI::Option* add_run_input_options(CLI::App& command, RunInput& input);

// Where such a run has its shards.
std::filesystem::path run_shards(const std::filesystem::path& run);
// Those that --input made lie in the run's folder, and have moved with it: the recipe's names follow them.
void follow_run_shards(const std::filesystem::path& run, DataSection& data);

// Of the tokenizer that would be made for this recipe.
std::int32_t vocabulary_for(const Recipe& recipe, const RunInput& input);

// UsageError if --input does not go with the recipe.
void check_run_input(const Recipe& recipe);

// The recipe with the data that are made of the input, by the first process of the job. Data that were made
// of the same input before, as before a run was stopped, are taken as they are; those of a command that was
// killed are made anew. UsageError if the recipe names training data, or the folder's are of another input;
// after an error the folder holds no data.
Recipe make_run_data(Recipe recipe, const RunInput& input, RunMode mode, Communicator& communicator);

}  // namespace comera::cli
