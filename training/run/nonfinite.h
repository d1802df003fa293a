#pragma once

#include <string>

#include "training/step/step_engine.h"

namespace comera {

// Messages about steps with a non-finite loss or gradient, which have changed nothing on the device, and
// about models that have diverged.

// The parameter of largest magnitude, if all are finite. It is often the cause when a forward pass overflows.
struct LargestParameter {
  double magnitude = 0;
  std::string name;
};
LargestParameter largest_parameter(const ParameterStore& store);

// "encoder.0.ffn.up.core.1", or "the moment v of ..."; empty if all values of the model and its optimizer are
// finite.
std::string nonfinite_numbers(StepEngine& engine);
// The same for the parameters alone.
std::string nonfinite_parameter(const ParameterStore& store);

// The first non-finite result of the last step, in the order of a backward pass: "the loss (the largest
// parameter is 3e+38, in ...)" or "encoder.1.norm2.weight's gradient".
std::string first_nonfinite(StepEngine& engine);

// If the model diverged because its steps were too long: the remedy, as a part of a sentence that names
// `rate_key`; otherwise empty. gates: the learning rate of gates.
std::string divergence(const ParameterStore& store, double gates, const std::string& rate_key);

}  // namespace comera
