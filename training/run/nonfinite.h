#pragma once

#include <string>

#include "training/step/step_engine.h"

namespace comera {

// What is said of steps whose loss or gradient is not finite, which have changed nothing on the device, and
// of models that have gone wrong.

// The parameter of largest magnitude, all being finite. Where a forward pass overflows, it is often to blame.
struct LargestParameter {
  double magnitude = 0;
  std::string name;
};
LargestParameter largest_parameter(const ParameterStore& store);

// "encoder.0.ffn.up.core.1", or "the moment v of ..."; empty if all numbers of the model and its optimizer
// are finite.
std::string nonfinite_numbers(StepEngine& engine);
// The same of the parameters alone.
std::string nonfinite_parameter(const ParameterStore& store);

// What of the last step was not finite first, in the order of a backward pass: "the loss (the largest
// parameter is 3e+38, in ...)" or "encoder.1.norm2.weight's gradient".
std::string first_nonfinite(StepEngine& engine);

// Whether the model is as it is because its steps were too long: then what to do, as a part of a sentence
// that names `rate_key`; empty if not. gates: the learning rate of gates.
std::string divergence(const ParameterStore& store, double gates, const std::string& rate_key);

}  // namespace comera
