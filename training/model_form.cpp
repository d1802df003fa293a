#include "training/model_form.h"

#include "model/dlrm/dlrm.h"
#include "model/model.h"
#include "reports/model_report.h"

namespace comera {

std::unique_ptr<Trainable> EncoderForm::make(Allocator& allocator) const {
  return std::make_unique<Model>(config_, allocator, true);
}

std::int64_t EncoderForm::dense_parameters() const { return comera::dense_parameters(config_); }

std::string EncoderForm::disconnected() const {
  return "an encoder in which no token sees another any more: the values or the output of every attention "
         "have been pruned away";
}

void DlrmForm::follow(const Recipe& recipe) {
  std::vector<std::int64_t> rows;
  for (const DlrmConfig::Table& table : config_.tables) rows.push_back(table.rows);
  config_ = dlrm_config(recipe, config_.numbers, rows);
}

std::unique_ptr<Trainable> DlrmForm::make(Allocator& allocator) const {
  return std::make_unique<Dlrm>(config_, allocator, true);
}

std::string DlrmForm::disconnected() const {
  return "a click model that answers the same to everything: one of its top layers has been pruned away";
}

}  // namespace comera
