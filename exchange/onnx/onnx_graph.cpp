#include "exchange/onnx/onnx_graph.h"

#include <fmt/ranges.h>

#include <bit>
#include <cstring>

#include "kernels/core/check.h"

namespace comera::exchange {

namespace {

static_assert(std::endian::native == std::endian::little, "raw_data is little-endian");

// Fields of ONNX's messages (onnx.proto, IR version 8).
namespace model_field {
enum { ir_version = 1, producer_name = 2, producer_version = 3, graph = 7, opset_import = 8 };
}
namespace opset_field {
enum { domain = 1, version = 2 };
}
namespace graph_field {
enum { node = 1, name = 2, initializer = 5, input = 11, output = 12 };
}
namespace node_field {
enum { input = 1, output = 2, name = 3, op_type = 4, attribute = 5 };
}
namespace attribute_field {
enum { name = 1, real = 2, integer = 3, integers = 8, type = 20 };
enum { type_float = 1, type_int = 2, type_ints = 7 };
}  // namespace attribute_field
namespace tensor_field {
enum { dims = 1, data_type = 2, name = 8, raw_data = 9 };
}
namespace value_field {
enum { name = 1, type = 2 };
}
namespace type_field {
enum { tensor_type = 1, element_type = 1, shape = 2, dim = 1, dim_value = 1, dim_param = 2 };
}

constexpr std::int64_t ir_version = 8, opset = 17;
constexpr std::size_t largest_model = (std::size_t{1} << 31) - (1 << 20);

template <class T>
std::string raw_of(const std::vector<T>& values) {
  std::string raw(values.size() * sizeof(T), '\0');
  std::memcpy(raw.data(), values.data(), raw.size());
  return raw;
}

ProtobufMessage message_of(const std::string& name, const OnnxGraph::Attribute& value) {
  ProtobufMessage attribute;
  attribute.text(attribute_field::name, name);
  if (const auto* integer = std::get_if<std::int64_t>(&value)) {
    attribute.number(attribute_field::integer, *integer);
    attribute.number(attribute_field::type, attribute_field::type_int);
  } else if (const auto* real = std::get_if<float>(&value)) {
    attribute.real(attribute_field::real, *real);
    attribute.number(attribute_field::type, attribute_field::type_float);
  } else {
    for (const std::int64_t one : std::get<OnnxGraph::Shape>(value))
      attribute.number(attribute_field::integers, one);
    attribute.number(attribute_field::type, attribute_field::type_ints);
  }
  return attribute;
}

bool is_number(const std::string& dim) { return dim.find_first_not_of("0123456789") == std::string::npos; }

}  // namespace

ProtobufMessage OnnxGraph::value_info(const std::string& name, Type type,
                                      const std::vector<std::string>& dims) {
  ProtobufMessage shape, tensor, of_value, info;
  for (const std::string& dim : dims) {
    ProtobufMessage one;
    if (is_number(dim))
      one.number(type_field::dim_value, std::stoll(dim));
    else
      one.text(type_field::dim_param, dim);
    shape.message(type_field::dim, one);
  }
  tensor.number(type_field::element_type, static_cast<int>(type));
  tensor.message(type_field::shape, shape);
  of_value.message(type_field::tensor_type, tensor);
  info.text(value_field::name, name);
  info.message(value_field::type, of_value);
  return info;
}

void OnnxGraph::input(const std::string& name, Type type, const std::vector<std::string>& dims) {
  inputs_.message(graph_field::input, value_info(name, type, dims));
}

void OnnxGraph::output(const std::string& value, const std::string& name,
                       const std::vector<std::string>& dims) {
  ProtobufMessage node;
  node.text(node_field::input, value);
  node.text(node_field::output, name);
  node.text(node_field::name, "to_" + name);
  node.text(node_field::op_type, "Identity");
  nodes_.message(graph_field::node, node);
  outputs_.message(graph_field::output, value_info(name, Type::float32, dims));
}

void OnnxGraph::constant(const std::string& name, Type type, const Shape& shape, const std::string& raw) {
  ProtobufMessage tensor;
  for (const std::int64_t size : shape) tensor.number(tensor_field::dims, size);
  tensor.number(tensor_field::data_type, static_cast<int>(type));
  tensor.text(tensor_field::name, name);
  tensor.text(tensor_field::raw_data, raw);
  constants_of_graph_.message(graph_field::initializer, tensor);
  constants_.insert(name);
}

std::string OnnxGraph::floats(const std::string& name, const Shape& shape,
                              const std::vector<double>& values) {
  if (!has(name))
    constant(name, Type::float32, shape, raw_of(std::vector<float>(values.begin(), values.end())));
  return name;
}

std::string OnnxGraph::bytes(const std::string& name, const Shape& shape,
                             const std::vector<std::int8_t>& values) {
  if (!has(name)) constant(name, Type::int8, shape, raw_of(values));
  return name;
}

std::string OnnxGraph::scalar(double value) {
  std::string& name = small_[fmt::format("{}", value)];
  if (name.empty()) {
    name = fmt::format("constant_{}", small_.size());
    floats(name, {}, {value});
  }
  return name;
}

std::string OnnxGraph::integers(const std::vector<std::int64_t>& values) {
  std::string& name = small_[fmt::format("[{}]", fmt::join(values, ","))];
  if (name.empty()) {
    name = fmt::format("constant_{}", small_.size());
    constant(name, Type::int64, {static_cast<std::int64_t>(values.size())}, raw_of(values));
  }
  return name;
}

std::string OnnxGraph::integer(std::int64_t value) {
  std::string& name = small_[fmt::format("int {}", value)];
  if (name.empty()) {
    name = fmt::format("constant_{}", small_.size());
    constant(name, Type::int64, {}, raw_of(std::vector{value}));
  }
  return name;
}

std::vector<std::string> OnnxGraph::nodes(const std::string& operation,
                                          const std::vector<std::string>& inputs, int outputs,
                                          const Attributes& attributes) {
  ++count_;
  ProtobufMessage node;
  std::vector<std::string> names;
  for (const std::string& name : inputs) node.text(node_field::input, name);
  for (int i = 0; i < outputs; ++i) {
    names.push_back(fmt::format("{}_{}{}", operation, count_, i > 0 ? fmt::format("_{}", i) : ""));
    node.text(node_field::output, names.back());
  }
  node.text(node_field::name, fmt::format("node_{}", count_));
  node.text(node_field::op_type, operation);
  for (const auto& [name, value] : attributes) node.message(node_field::attribute, message_of(name, value));
  nodes_.message(graph_field::node, node);
  return names;
}

std::string OnnxGraph::model(const std::string& producer_version) const {
  ProtobufMessage graph, opsets, model;
  graph.text(graph_field::name, "comera");
  opsets.text(opset_field::domain, "");
  opsets.number(opset_field::version, opset);
  model.number(model_field::ir_version, ir_version);
  model.text(model_field::producer_name, "comera");
  model.text(model_field::producer_version, producer_version);
  model.message(model_field::opset_import, opsets);
  // Repeated fields may be written in parts.
  const std::string bytes =
      graph.bytes() + nodes_.bytes() + constants_of_graph_.bytes() + inputs_.bytes() + outputs_.bytes();
  COMERA_CHECK(
      bytes.size() < largest_model,
      "the model takes {:.1f} GB in ONNX, whose files hold 2.1 at most; give --tensor-trains or --int8",
      static_cast<double>(bytes.size()) * 1e-9);
  model.text(model_field::graph, bytes);
  return model.bytes();
}

}  // namespace comera::exchange
