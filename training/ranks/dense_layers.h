#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "training/step/step_engine.h"

namespace comera {

// What an encoder of tensor trains knows, for the same encoder with dense linear layers: their matrices, and
// all other parameters with the optimizer's states. On the host and in double.
class DenseLayers {
 public:
  explicit DenseLayers(const StepEngine& engine);

  // Writes them into the dense model, rounded to its type, and into its optimizer's states. Those of the
  // matrices stay as they are: zero. Throws Error if a parameter is missing.
  void write(const StepEngine& engine) const;

 private:
  std::map<std::string, std::vector<double>> parameters_;
  std::map<std::pair<std::string, std::string>, std::vector<double>> states_;  // by parameter and state
};

}  // namespace comera
