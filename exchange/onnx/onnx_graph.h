#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "exchange/onnx/protobuf_message.h"

namespace comera::exchange {

// A graph of ONNX (opset 17, onnx.ai), built node by node. Values are named by strings.
class OnnxGraph {
 public:
  using Shape = std::vector<std::int64_t>;
  using Attribute = std::variant<std::int64_t, float, Shape>;
  using Attributes = std::vector<std::pair<std::string, Attribute>>;
  enum class Type : int { float32 = 1, int8 = 3, int32 = 6, int64 = 7 };

  // dims: a number, or the name of a size that may differ from call to call.
  void input(const std::string& name, Type type, const std::vector<std::string>& dims);
  // Gives an existing value this name.
  void output(const std::string& value, const std::string& name, const std::vector<std::string>& dims);

  // Constants. Names of weights are given, and a weight that is there already is not added again; the others
  // get a name.
  bool has(const std::string& name) const { return constants_.contains(name); }
  std::string floats(const std::string& name, const Shape& shape, const std::vector<double>& values);
  std::string bytes(const std::string& name, const Shape& shape, const std::vector<std::int8_t>& values);
  std::string scalar(double value);
  std::string integers(const std::vector<std::int64_t>& values);
  std::string integer(std::int64_t value);  // without an axis

  // The first output of a new node.
  std::string node(const std::string& operation, const std::vector<std::string>& inputs,
                   const Attributes& attributes = {}) {
    return nodes(operation, inputs, 1, attributes)[0];
  }
  std::vector<std::string> nodes(const std::string& operation, const std::vector<std::string>& inputs,
                                 int outputs, const Attributes& attributes = {});

  // The file. Error if it is larger than protocol buffers can be (2 GiB).
  std::string model(const std::string& producer_version) const;

 private:
  void constant(const std::string& name, Type type, const Shape& shape, const std::string& raw);
  static ProtobufMessage value_info(const std::string& name, Type type, const std::vector<std::string>& dims);

  ProtobufMessage constants_of_graph_, nodes_, inputs_, outputs_;
  std::set<std::string> constants_;
  std::map<std::string, std::string> small_;  // of scalars and lists of integers, by what they hold
  int count_ = 0;
};

}  // namespace comera::exchange
