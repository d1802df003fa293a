#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "training/step/step_engine.h"

namespace comera {

// What an encoder knows, for a larger one of a later phase (recipes/phase_recipe.h): its parameters and the
// optimizer's states, on the host and in double.
class GrownModel {
 public:
  // dense: also the matrices of its linear layers. blocks: how many it has.
  GrownModel(const StepEngine& engine, bool dense, std::int64_t blocks);

  // Writes them into the larger model, rounded to its type, and into its optimizer's states. A block b that
  // is new begins as a copy of block b mod `blocks`, states included (stacking: Gong et al., 2019). States
  // that are new, such as those of dense matrices, stay as they are: zero. Throws Error if a parameter has no
  // counterpart.
  void write(const StepEngine& engine) const;

 private:
  std::string source_of(const std::string& parameter) const;

  std::int64_t blocks_;
  std::map<std::string, std::vector<double>> parameters_;
  std::map<std::pair<std::string, std::string>, std::vector<double>> states_;  // by parameter and state
};

}  // namespace comera
