#include "training/tasks/model_form.h"

#include "model/dlrm/dlrm.h"
#include "model/model.h"
#include "recipes/encoder_config.h"
#include "reports/model_report.h"

namespace comera {

std::unique_ptr<ModelForm> form_of(const Recipe& recipe, const CheckpointReader& checkpoint) {
  if (recipe.dlrm) return std::make_unique<DlrmForm>(dlrm_config(recipe));
  const std::int64_t vocabulary = checkpoint.integer("/data", "vocabulary");
  return std::make_unique<EncoderForm>(encoder_config(recipe, vocabulary), vocabulary);
}

std::unique_ptr<Trainable> EncoderForm::make(Allocator& allocator, bool gradients) const {
  auto model = std::make_unique<Model>(config_, allocator, gradients);
  model_ = model.get();
  return model;
}

std::int64_t EncoderForm::dense_parameters() const { return comera::dense_parameters(config_); }

std::string EncoderForm::disconnected() const {
  return "an encoder without attention: the values or the output of every attention layer have been pruned "
         "away";
}

void DlrmForm::follow(const Recipe& recipe) {
  config_ = dlrm_config(recipe, config_.dense_features, rows_of(config_));
}

std::unique_ptr<Trainable> DlrmForm::make(Allocator& allocator, bool gradients) const {
  auto model = std::make_unique<Dlrm>(config_, allocator, gradients);
  model_ = model.get();
  return model;
}

std::string DlrmForm::disconnected() const {
  return "a click model with a constant output: one of its top layers has been pruned away";
}

}  // namespace comera
