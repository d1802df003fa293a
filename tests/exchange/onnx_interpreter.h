#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace comera::test {

// An array of numbers in double, whatever their type in a file.
struct OnnxTensor {
  std::vector<std::int64_t> shape;
  std::vector<double> values;
  bool whole = false;  // of an integer type
};
using OnnxTensors = std::map<std::string, OnnxTensor>;

// Reads the bytes of a model and computes its outputs, one node after another, by the definitions of the
// operations in opset 17. Independent of what writes models: only what an encoder needs, else an Error.
OnnxTensors run_onnx(const std::string& model, const OnnxTensors& inputs);

}  // namespace comera::test
