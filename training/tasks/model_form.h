#pragma once

#include <memory>
#include <string>

#include "checkpoints/checkpoint_file.h"
#include "model/rank_sizes.h"
#include "model/trainable.h"
#include "recipes/encoder_config.h"
#include "recipes/recipe.h"

namespace comera {

class Model;
class Dlrm;

// What kind of model a run trains, and of what shape it is now: ranks change while it is trained.
class ModelForm {
 public:
  virtual ~ModelForm() = default;

  // Takes over the current ranks of the recipe.
  virtual void follow(const Recipe& recipe) = 0;
  // In the allocator's memory, not initialised.
  virtual std::unique_ptr<Trainable> make(Allocator& allocator, bool gradients) const = 0;
  virtual ModelTensorTrains trains() const = 0;
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
  // What make() made last.
  const Model& model() const { return *model_; }

  void follow(const Recipe& recipe) override { config_ = encoder_config(recipe, vocabulary_); }
  std::unique_ptr<Trainable> make(Allocator& allocator, bool gradients) const override;
  ModelTensorTrains trains() const override { return config_; }
  std::int64_t dense_parameters() const override;
  std::string disconnected() const override;

 private:
  EncoderConfig config_;
  std::int64_t vocabulary_;
  mutable const Model* model_ = nullptr;
};

class DlrmForm final : public ModelForm {
 public:
  explicit DlrmForm(DlrmConfig config) : config_(std::move(config)) {}

  const DlrmConfig& config() const { return config_; }
  // What make() made last.
  const Dlrm& model() const { return *model_; }

  void follow(const Recipe& recipe) override;
  std::unique_ptr<Trainable> make(Allocator& allocator, bool gradients) const override;
  ModelTensorTrains trains() const override { return trains_of(config_); }
  std::int64_t dense_parameters() const override { return comera::dense_parameters(config_); }
  std::string disconnected() const override;

 private:
  DlrmConfig config_;
  mutable const Dlrm* model_ = nullptr;
};

// For a checkpoint's model: recipe is the checkpoint's, with the ranks that layers are to have.
std::unique_ptr<ModelForm> form_of(const Recipe& recipe, const CheckpointReader& checkpoint);

}  // namespace comera
