#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "checkpoints/checkpoint_file.h"
#include "recipes/recipe.h"
#include "tensorized/decomposition/compaction.h"
#include "training/tasks/model_form.h"

// What rank adaptation has killed is taken out of a checkpoint, as a run that goes on takes it out of memory
// (RankStages::compact()).
namespace comera {

// The ranks of every tensor train of a model without the dead: zeros for a layer that is removed.
LayerRanks live_ranks(const ModelTensorTrains& trains, const Trainable& model);
// Gives the recipe these layers' live ranks, so that it builds the compacted model.
void set_ranks(Recipe& recipe, const std::vector<LiveEntries>& live);

// A checkpoint whose tensor trains have dead entries, and what is left of it without them.
class RankCompaction {
 public:
  // Reads the weights. Throws Error if the checkpoint's model has no tensor trains. The reader must outlive
  // this.
  explicit RankCompaction(const CheckpointReader& from);

  const Recipe& recipe() const { return recipe_; }  // of the compacted model
  const LayerRanks& before() const { return before_; }
  const LayerRanks& after() const { return after_; }
  bool nothing_dead() const { return before_ == after_; }
  const ModelTensorTrains& trains() const { return trains_; }                // of the model with what is dead
  const ParameterStore& parameters() const { return model_->parameters(); }  // dead ones included

  // Writes the live ones into a model made of recipe().
  void write_parameters(const ParameterStore& to) const;
  // Writes a checkpoint: parameters and optimizer state, where there is any, without what is dead, the recipe
  // with the ranks that are left, and all else as it is. A run resumes from it as it would have gone on.
  // Returns the number of its parameters, without gates.
  std::int64_t write(const std::filesystem::path& output) const;

 private:
  const CheckpointReader& from_;
  Recipe recipe_;
  ModelTensorTrains trains_;
  std::unique_ptr<Trainable> model_;
  std::vector<LiveEntries> live_;
  LayerRanks before_, after_;
};

}  // namespace comera
