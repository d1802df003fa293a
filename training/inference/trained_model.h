#pragma once

#include <filesystem>
#include <memory>

#include "checkpoints/checkpoint_file.h"
#include "checkpoints/model_state.h"
#include "data/tokenizers/tokenizer.h"
#include "kernels/ops/processor.h"
#include "model/model.h"
#include "recipes/recipe.h"

namespace comera {

// A checkpoint with its recipe and tokenizer.
struct TrainedModel {
  std::filesystem::path checkpoint;
  // The checkpoint, open: it can be read though the run that wrote it renames or deletes it meanwhile.
  std::shared_ptr<const CheckpointReader> reader;
  // The checkpoint itself if it carries one, else a file in its run's directory; empty if there is none.
  std::filesystem::path tokenizer;
  std::string recipe;  // TOML
};

// path: a checkpoint, or a run's directory; then the best checkpoint is used if there is one, else the
// newest. Error if there is none or it is damaged.
TrainedModel find_trained_model(const std::filesystem::path& path);

// A trained model in a device's memory, for evaluation and prediction.
struct LoadedModel {
  // tokenizer: replaces the checkpoint's, if not empty. Error if the model was not trained with it. device:
  // as in find_processor(). length: the maximum length of sequences; it may exceed model.max_positions only
  // if positions are not learned. on: this processor instead, if not null.
  LoadedModel(const std::filesystem::path& path, const std::filesystem::path& tokenizer,
              const std::vector<std::string>& overrides, const std::string& device, std::int64_t length = 0,
              const Processor* on = nullptr);

  TrainedModel trained;
  Recipe recipe;
  data::Tokenizer tokenizer;
  Processor processor;
  Model model;
};

// Whether the head has random values, since the model was imported from a folder without one.
bool has_random_head(const CheckpointReader& checkpoint);
// The same of layers that a model with these parameters has too.
bool has_random_head(const CheckpointReader& checkpoint, const ParameterStore& model);
// UsageError, with advice, if so.
void require_trained_head(const CheckpointReader& checkpoint, const std::string& advice);

// Begins a model of this recipe with the parameters of a checkpoint (checkpoints/model_state.h). A
// regression gives the same scores, whatever its score_mean and score_std.
InitialParameters initialise_from(const CheckpointReader& checkpoint, const Recipe& recipe,
                                  const ParameterStore& model);

// Whether sentence-transformers makes vectors with the model as it was imported, in a way that is available
// here.
bool imports_vectors(const CheckpointReader& checkpoint);

// How the hidden states of a model become the vector of a text: as a contrastive model was trained, as
// sentence-transformers pools an imported encoder, otherwise by their mean. UsageError, with advice, if
// sentence-transformers makes the vectors in a way that is not available here.
Pooling vector_pooling(const CheckpointReader& checkpoint, const ModelSection& model,
                       const std::string& advice);
Pooling vector_pooling(const LoadedModel& loaded, const std::string& advice);
// The same for a choice of the user's: "mean", "first" or empty for the model's own. Error if a layer behind
// the pooling was made for the other one.
Pooling chosen_pooling(const LoadedModel& loaded, const std::string& choice, const std::string& advice);

}  // namespace comera
