#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "checkpoints/checkpoint_file.h"
#include "recipes/recipe.h"
#include "tensorized/decomposition/tt_svd.h"
#include "training/ranks/activations.h"

namespace comera {

// The result for one layer's matrix.
struct CompactedLayer {
  std::string name = {};
  std::string shape = {};  // modes and ranks
  std::vector<std::int64_t> ranks = {};
  std::int64_t before = 0, after = 0;  // parameters of its matrix, and of its cores and projection
  double allowed = 0;                  // error
  double error = 0;                    // the error reached, measured on the stored cores and projection
  double lost = 0;                     // what the projection behind the embedding's train alone loses
  bool missed = false;                 // a cap, or that projection, kept the error above the allowed one
  double seconds = 0;
};

struct DenseCompactionOptions {
  double error = 0.1;         // relative error of each layer's matrix in the Frobenius norm, in [0, 1)
  std::int64_t max_rank = 0;  // of every bond; 0: no cap
  ErrorShares shares = ErrorShares::smallest;
  bool recipe_ranks = false;    // at most the ranks of the recipe, bond by bond
  std::int64_t parameters = 0;  // compact_dense_to_size: of the whole model, at most
  std::string request = {};     // what was asked for, which the checkpoint keeps
  // If not null, errors are those of what the layers say about such inputs instead of their matrices', of all
  // layers that it has and a table whose shape is a matrix of two factors (two_factors()). The biases take
  // over what the layers lose of the mean. Only the middle bond of a train is cut then, and
  // others by caps alone.
  const Activations* activations = nullptr;
  std::function<void(const std::string& layer, int number, int layers)> begins = {};  // before each layer
  std::function<void(const CompactedLayer&)> finished = {};                           // after each layer
};

struct DenseCompaction {
  Recipe recipe;  // of the result: tensorized, with each layer's ranks
  std::vector<CompactedLayer> layers;
  std::int64_t before = 0, after = 0;  // parameters of the whole model
  double error = 0;                    // the error allowed
  std::int64_t searched = 0;           // compact_dense_to_size: parameters by the ranks that its search found
};

// The recipe for compacting a dense checkpoint: the checkpoint's recipe, tensorized, with [tensorized] taken
// from another recipe file if one is given. If there are no shapes, each matrix becomes a train of two cores,
// its two factors, and the table too. Overrides may only affect [tensorized]. Throws Error if the
// checkpoint's model has tensor trains, UsageError for impossible shapes. notes: gets a sentence for each
// shape that had to be fitted, if not null.
Recipe dense_compaction_recipe(const CheckpointReader& dense, const std::filesystem::path& shapes_from,
                               const std::vector<std::string>& overrides,
                               std::vector<std::string>* notes = nullptr);

// Writes the dense model of a checkpoint as tensor trains with the recipe's modes and the ranks that the
// allowed error needs (tensorized/decomposition/tt_svd.h). Everything else is copied unchanged, including the
// training progress. Optimizer state is dropped, because it belongs to other parameters. Nothing is
// written if `output` is empty.
DenseCompaction compact_dense(const CheckpointReader& dense, const Recipe& recipe,
                              const DenseCompactionOptions& options, const std::filesystem::path& output);

// Parameters of the compacted model where every rank is 1: no allowed error gives fewer.
std::int64_t least_parameters(const CheckpointReader& dense, const Recipe& recipe);

// The same with about the least error, one for all layers, at which the model has at most options.parameters,
// and, where that is possible, 98 % of them; it is found by interpolation. UsageError if the smallest ranks
// have more; then nothing is written.
DenseCompaction compact_dense_to_size(const CheckpointReader& dense, const Recipe& recipe,
                                      DenseCompactionOptions options, const std::filesystem::path& output);

}  // namespace comera
