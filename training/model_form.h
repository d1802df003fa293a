#pragma once

#include <memory>
#include <string>

#include "checkpoints/checkpoint_file.h"
#include "model/rank_sizes.h"
#include "model/trainable.h"
#include "recipes/recipe.h"

namespace comera {

// The kind of model that a run trains, and its current shape; ranks change during training.
class ModelForm {
 public:
  virtual ~ModelForm() = default;

  // Takes over the current ranks of the recipe.
  virtual void follow(const Recipe& recipe) = 0;
  // In the allocator's memory, not initialised.
  virtual std::unique_ptr<Trainable> make(Allocator& allocator, bool gradients) const = 0;
  virtual ModelTrains trains() const = 0;
  // Parameters of the same model with every layer dense.
  virtual std::int64_t dense_parameters() const = 0;
  // Describes the model without a path from its input to its output: "an encoder in which …".
  virtual std::string disconnected() const = 0;
};

class EncoderForm final : public ModelForm {
 public:
  EncoderForm(EncoderConfig config, std::int64_t tokenizer_vocabulary)
      : config_(std::move(config)), vocabulary_(tokenizer_vocabulary) {}

  const EncoderConfig& config() const { return config_; }

  void follow(const Recipe& recipe) override { config_ = encoder_config(recipe, vocabulary_); }
  std::unique_ptr<Trainable> make(Allocator& allocator, bool gradients) const override;
  ModelTrains trains() const override { return config_; }
  std::int64_t dense_parameters() const override;
  std::string disconnected() const override;

 private:
  EncoderConfig config_;
  std::int64_t vocabulary_;
};

class DlrmForm final : public ModelForm {
 public:
  explicit DlrmForm(DlrmConfig config) : config_(std::move(config)) {}

  const DlrmConfig& config() const { return config_; }

  void follow(const Recipe& recipe) override;
  std::unique_ptr<Trainable> make(Allocator& allocator, bool gradients) const override;
  ModelTrains trains() const override { return trains_of(config_); }
  std::int64_t dense_parameters() const override { return comera::dense_parameters(config_); }
  std::string disconnected() const override;

 private:
  DlrmConfig config_;
};

// For a checkpoint's model: recipe is the checkpoint's, with the ranks that layers are to have.
std::unique_ptr<ModelForm> form_of(const Recipe& recipe, const CheckpointReader& checkpoint);

}  // namespace comera
