#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "checkpoints/checkpoint_file.h"
#include "recipes/recipe.h"
#include "tensorized/decomposition/compaction.h"
#include "training/tasks/model_form.h"

// Removes pruned ranks from a checkpoint, as a run removes them from memory (RankStages::compact()).
namespace comera {

// The live ranks of every tensor train of a model: zeros for a layer that is removed.
LayerRanks live_ranks(const ModelTensorTrains& trains, const Trainable& model);
// Sets these layers' live ranks in the recipe, so that it builds the compacted model.
void set_ranks(Recipe& recipe, const std::vector<LiveEntries>& live);

// A checkpoint whose tensor trains have pruned entries, and the compacted result.
class RankCompaction {
 public:
  // Reads the weights. Throws Error if the checkpoint's model has no tensor trains. The reader must outlive
  // this.
  explicit RankCompaction(const CheckpointReader& from);

  const Recipe& recipe() const { return recipe_; }  // of the compacted model
  const LayerRanks& before() const { return before_; }
  const LayerRanks& after() const { return after_; }
  bool nothing_dead() const { return before_ == after_; }
  const ModelTensorTrains& trains() const { return trains_; }  // of the model with pruned entries
  const ParameterStore& parameters() const { return model_->parameters(); }  // including pruned entries

  // Writes the live parameters into a model built from recipe().
  void write_parameters(const ParameterStore& to) const;
  // Writes a checkpoint: parameters and optimizer state, if any, without pruned entries, the recipe with the
  // remaining ranks, and everything else unchanged. A run resumes from it exactly as from the original.
  // Returns the number of its parameters, without gates. weights_only: without optimizer state, so that no
  // run resumes from it.
  std::int64_t write(const std::filesystem::path& output, bool weights_only = false) const;

 private:
  const CheckpointReader& from_;
  Recipe recipe_;
  ModelTensorTrains trains_;
  std::unique_ptr<Trainable> model_;
  std::vector<LiveEntries> live_;
  LayerRanks before_, after_;
};

// Copies a checkpoint without its optimizer state.
void write_weights(const CheckpointReader& from, const std::filesystem::path& output);

}  // namespace comera
