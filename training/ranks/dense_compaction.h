#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "checkpoints/checkpoint_file.h"
#include "recipes/recipe.h"
#include "tensorized/decomposition/tt_svd.h"

namespace comera {

// What became of one layer's matrix.
struct CompactedLayer {
  std::string name = {};
  std::string shape = {};  // modes and ranks
  std::vector<std::int64_t> ranks = {};
  std::int64_t before = 0, after = 0;  // numbers of its matrix, and of its cores
  double error = 0;                    // reached, measured on the cores as they are stored
  bool missed = false;                 // a cap kept it above the error that was allowed
  double seconds = 0;
};

struct DenseCompactionOptions {
  double error = 0.1;  // relative, of each layer's matrix in the Frobenius norm: at least 0, less than 1
  std::int64_t max_rank = 0;  // of every bond; 0: no cap
  ErrorShares shares = ErrorShares::smallest;
  bool recipe_ranks = false;  // at most the ranks of the recipe, bond by bond
  std::function<void(const std::string& layer, int number, int layers)> begins = {};  // before each layer
  std::function<void(const CompactedLayer&)> finished = {};                           // and after it
};

struct DenseCompaction {
  Recipe recipe;  // of the result: tensorized, with the ranks of each layer
  std::vector<CompactedLayer> layers;
  std::int64_t before = 0, after = 0;  // parameters of the whole model
};

// The recipe to compact a dense checkpoint with: the checkpoint's own, tensorized, with [tensorized] of
// another recipe's file unless that is empty. Overrides may be about [tensorized] only. Throws Error if the
// checkpoint's model has tensor trains, UsageError if there are no shapes to give its layers, or impossible
// ones.
Recipe dense_compaction_recipe(const CheckpointReader& dense, const std::filesystem::path& shapes_from,
                               const std::vector<std::string>& overrides);

// Writes the dense model of a checkpoint as tensor trains of the recipe's modes, with the ranks that the
// allowed error needs (tensorized/decomposition/tt_svd.h). What is no matrix of such a layer goes over
// unchanged, and so do the numbers that say where training stood; optimizer state does not: it belongs to
// other parameters.
DenseCompaction compact_dense(const CheckpointReader& dense, const Recipe& recipe,
                              const DenseCompactionOptions& options, const std::filesystem::path& output);

}  // namespace comera
