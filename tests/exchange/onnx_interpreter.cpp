#include "tests/exchange/onnx_interpreter.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <string_view>

#include "kernels/core/check.h"

namespace comera::test {

namespace {

using Shape = std::vector<std::int64_t>;

// A message as its fields, in order: numbers, or bytes.
struct Field {
  int number = 0;
  std::uint64_t value = 0;
  std::string_view bytes;
};
std::vector<Field> fields_of(std::string_view message) {
  std::vector<Field> fields;
  std::size_t at = 0;
  const auto varint = [&] {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(message.at(at++));
      value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
  };
  while (at < message.size()) {
    const std::uint64_t key = varint();
    Field field{.number = static_cast<int>(key >> 3), .value = 0, .bytes = {}};
    if ((key & 7) == 0) {
      field.value = varint();
    } else if ((key & 7) == 2) {
      const std::uint64_t size = varint();
      field.bytes = message.substr(at, size);
      COMERA_CHECK(field.bytes.size() == size, "a message is cut off");
      at += size;
    } else {
      COMERA_CHECK((key & 7) == 5, "wire type {}", key & 7);
      field.bytes = message.substr(at, 4);
      at += 4;
    }
    fields.push_back(field);
  }
  return fields;
}

struct Node {
  std::string operation;
  std::vector<std::string> inputs, outputs;
  std::map<std::string, Shape> integers;
  std::map<std::string, double> reals;

  std::int64_t integer(const char* name, std::int64_t otherwise) const {
    const auto found = integers.find(name);
    return found == integers.end() ? otherwise : found->second.at(0);
  }
};

Node node_of(std::string_view message) {
  Node node;
  for (const Field& field : fields_of(message)) {
    if (field.number == 1) node.inputs.emplace_back(field.bytes);
    if (field.number == 2) node.outputs.emplace_back(field.bytes);
    if (field.number == 4) node.operation = field.bytes;
    if (field.number != 5) continue;
    std::string name;
    for (const Field& part : fields_of(field.bytes)) {
      if (part.number == 1) name = part.bytes;
      if (part.number == 3 || part.number == 8)
        node.integers[name].push_back(static_cast<std::int64_t>(part.value));
      if (part.number == 2) {
        float value = 0;
        std::memcpy(&value, part.bytes.data(), sizeof value);
        node.reals[name] = value;
      }
    }
  }
  return node;
}

template <class T>
std::vector<double> numbers_in(std::string_view raw) {
  std::vector<T> values(raw.size() / sizeof(T));
  std::memcpy(values.data(), raw.data(), values.size() * sizeof(T));
  return {values.begin(), values.end()};
}

std::pair<std::string, OnnxTensor> constant_of(std::string_view message) {
  std::string name;
  OnnxTensor tensor;
  std::uint64_t type = 0;
  std::string_view raw;
  for (const Field& field : fields_of(message)) {
    if (field.number == 1) tensor.shape.push_back(static_cast<std::int64_t>(field.value));
    if (field.number == 2) type = field.value;
    if (field.number == 8) name = field.bytes;
    if (field.number == 9) raw = field.bytes;
  }
  tensor.whole = type != 1;
  tensor.values = type == 1   ? numbers_in<float>(raw)
                  : type == 3 ? numbers_in<std::int8_t>(raw)
                              : numbers_in<std::int64_t>(raw);
  return {name, tensor};
}

std::int64_t elements(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

// The element of an array that a place in a larger one is broadcast from.
std::int64_t broadcast(std::int64_t place, const Shape& from, const Shape& to) {
  std::int64_t at = 0, stride = 1;
  for (std::size_t back = 1; back <= to.size(); ++back) {
    const std::int64_t index = place % to[to.size() - back];
    place /= to[to.size() - back];
    if (back > from.size()) continue;
    const std::int64_t size = from[from.size() - back];
    COMERA_CHECK(size == 1 || size == to[to.size() - back], "{} and {} cannot be broadcast", size,
                 to[to.size() - back]);
    at += size == 1 ? 0 : index * stride;
    stride *= size;
  }
  return at;
}

Shape common(const Shape& a, const Shape& b) {
  Shape shape(std::max(a.size(), b.size()), 1);
  for (const Shape* of : {&a, &b})
    for (std::size_t back = 1; back <= of->size(); ++back)
      shape[shape.size() - back] = std::max(shape[shape.size() - back], (*of)[of->size() - back]);
  return shape;
}

OnnxTensor together(const OnnxTensor& a, const OnnxTensor& b,
                    const std::function<double(double, double)>& call) {
  OnnxTensor y{common(a.shape, b.shape), {}, a.whole && b.whole};
  for (std::int64_t i = 0; i < elements(y.shape); ++i)
    y.values.push_back(
        call(a.values[broadcast(i, a.shape, y.shape)], b.values[broadcast(i, b.shape, y.shape)]));
  return y;
}

OnnxTensor each(OnnxTensor x, double (*call)(double)) {
  std::ranges::transform(x.values, x.values.begin(), call);
  return x;
}

OnnxTensor multiplied(const OnnxTensor& a, const OnnxTensor& b) {
  const std::int64_t n = a.shape[a.shape.size() - 2], k = a.shape.back(), m = b.shape.back();
  COMERA_CHECK(b.shape[b.shape.size() - 2] == k, "({}, {}) times ({}, {})", n, k, b.shape[b.shape.size() - 2],
               m);
  const Shape left(a.shape.begin(), a.shape.end() - 2), right(b.shape.begin(), b.shape.end() - 2);
  const Shape lead = common(left, right);
  OnnxTensor y{lead, std::vector<double>(static_cast<std::size_t>(elements(lead) * n * m)),
               a.whole && b.whole};
  y.shape.insert(y.shape.end(), {n, m});
  for (std::int64_t l = 0; l < elements(lead); ++l) {
    const double* of_a = a.values.data() + broadcast(l, left, lead) * n * k;
    const double* of_b = b.values.data() + broadcast(l, right, lead) * k * m;
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = 0; j < k; ++j)
        for (std::int64_t c = 0; c < m; ++c)
          y.values[(l * n + i) * m + c] += of_a[i * k + j] * of_b[j * m + c];
  }
  return y;
}

// An array as (before, size of the axis, behind).
struct Around {
  std::size_t axis;
  std::int64_t before, size, behind;
  Around(const Shape& shape, std::int64_t given)
      : axis(static_cast<std::size_t>(given < 0 ? given + std::ssize(shape) : given)),
        before(elements({shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(axis)})),
        size(shape.at(axis)),
        behind(elements({shape.begin() + static_cast<std::ptrdiff_t>(axis) + 1, shape.end()})) {}
};

// The indices `chosen` of an axis.
OnnxTensor taken(const OnnxTensor& x, std::int64_t axis, const std::vector<std::int64_t>& chosen) {
  const Around around(x.shape, axis);
  OnnxTensor y{x.shape, {}, x.whole};
  y.shape[around.axis] = std::ssize(chosen);
  for (std::int64_t b = 0; b < around.before; ++b)
    for (const std::int64_t index : chosen) {
      COMERA_CHECK(index >= 0 && index < around.size, "index {} of {}", index, around.size);
      const auto from = x.values.begin() + (b * around.size + index) * around.behind;
      y.values.insert(y.values.end(), from, from + around.behind);
    }
  return y;
}

std::vector<std::int64_t> integers_of(const OnnxTensor& x) { return {x.values.begin(), x.values.end()}; }

class Interpreter {
 public:
  explicit Interpreter(OnnxTensors values) : values_(std::move(values)) {}
  const OnnxTensors& values() const { return values_; }
  void put(const std::string& name, OnnxTensor tensor) {
    COMERA_CHECK(values_.emplace(name, std::move(tensor)).second, "{} has two values", name);
  }

  void run(const Node& node) {
    if (node.operation == "Split") {
      const OnnxTensor& x = in(node, 0);
      const Around around(x.shape, node.integer("axis", 0));
      const std::int64_t part = around.size / std::ssize(node.outputs);
      for (std::int64_t i = 0; i < std::ssize(node.outputs); ++i) {
        std::vector<std::int64_t> chosen(static_cast<std::size_t>(part));
        std::iota(chosen.begin(), chosen.end(), i * part);
        put(node.outputs[static_cast<std::size_t>(i)], taken(x, node.integer("axis", 0), chosen));
      }
    } else if (node.operation == "DynamicQuantizeLinear") {
      round(node);
    } else {
      put(node.outputs.at(0), result(node));
    }
  }

 private:
  const OnnxTensor& in(const Node& node, std::size_t i) const {
    const auto found = values_.find(node.inputs.at(i));
    COMERA_CHECK(found != values_.end(), "{} comes before {}", node.operation, node.inputs[i]);
    return found->second;
  }

  // To 8 bits without a sign.
  void round(const Node& node) {
    const OnnxTensor& x = in(node, 0);
    const double least = std::min(0.0, std::ranges::min(x.values)),
                 most = std::max(0.0, std::ranges::max(x.values));
    const double scale = (most - least) / 255;
    const double zero = std::clamp(std::nearbyint(-least / scale), 0.0, 255.0);
    OnnxTensor y{x.shape, {}, true};
    for (const double value : x.values)
      y.values.push_back(std::clamp(std::nearbyint(value / scale) + zero, 0.0, 255.0));
    put(node.outputs[0], y);
    put(node.outputs[1], {{}, {scale}, false});
    put(node.outputs[2], {{}, {zero}, true});
  }

  OnnxTensor result(const Node& node) const {
    const std::string& op = node.operation;
    const OnnxTensor& x = in(node, 0);
    if (op == "Identity") return x;
    if (op == "Add") return together(x, in(node, 1), std::plus<>());
    if (op == "Sub") return together(x, in(node, 1), std::minus<>());
    if (op == "Mul") return together(x, in(node, 1), std::multiplies<>());
    if (op == "Div")
      return together(
          x, in(node, 1),
          x.whole ? [](double a, double b) { return std::trunc(a / b); }
                  : [](double a, double b) { return a / b; });
    if (op == "Mod") return together(x, in(node, 1), [](double a, double b) { return std::fmod(a, b); });
    if (op == "Less") return together(x, in(node, 1), [](double a, double b) { return a < b ? 1.0 : 0.0; });
    if (op == "Abs") return each(x, [](double v) { return std::abs(v); });
    if (op == "Erf") return each(x, [](double v) { return std::erf(v); });
    if (op == "Tanh") return each(x, [](double v) { return std::tanh(v); });
    if (op == "Relu") return each(x, [](double v) { return std::max(v, 0.0); });
    if (op == "Sigmoid") return each(x, [](double v) { return 1 / (1 + std::exp(-v)); });
    if (op == "Cos") return each(x, [](double v) { return std::cos(v); });
    if (op == "Sin") return each(x, [](double v) { return std::sin(v); });
    if (op == "MatMul") return multiplied(x, in(node, 1));
    if (op == "MatMulInteger") return multiplied(together(x, in(node, 2), std::minus<>()), in(node, 1));
    return of_shapes(node, x);
  }

  OnnxTensor of_shapes(const Node& node, const OnnxTensor& x) const {
    const std::string& op = node.operation;
    if (op == "Cast") return {x.shape, x.values, node.integer("to", 0) != 1};
    if (op == "Shape") {
      const auto count = std::ssize(x.shape);
      const std::int64_t begin = node.integer("start", 0), end = node.integer("end", count);
      OnnxTensor y{{}, {}, true};
      for (std::int64_t i = begin; i < (end < 0 ? end + count : end); ++i)
        y.values.push_back(static_cast<double>(x.shape[static_cast<std::size_t>(i)]));
      y.shape = {std::ssize(y.values)};
      return y;
    }
    if (op == "Range") {
      OnnxTensor y{{}, {}, true};
      for (double v = x.values[0]; v < in(node, 1).values[0]; v += in(node, 2).values[0])
        y.values.push_back(v);
      y.shape = {std::ssize(y.values)};
      return y;
    }
    if (op == "Reshape") return reshaped(x, integers_of(in(node, 1)));
    if (op == "Unsqueeze" || op == "Squeeze") return squeezed(x, integers_of(in(node, 1)), op == "Squeeze");
    if (op == "Transpose") return transposed(x, node.integers.at("perm"));
    if (op == "Expand") {
      OnnxTensor zeros{integers_of(in(node, 1)), {}, x.whole};
      zeros.values.resize(static_cast<std::size_t>(elements(zeros.shape)));
      return together(x, zeros, std::plus<>());
    }
    if (op == "Gather") {
      const OnnxTensor& indices = in(node, 1);
      const std::int64_t axis = node.integer("axis", 0);
      OnnxTensor y = taken(x, axis, integers_of(indices));
      y.shape.erase(y.shape.begin() + axis);
      y.shape.insert(y.shape.begin() + axis, indices.shape.begin(), indices.shape.end());
      return y;
    }
    if (op == "Slice") {
      const std::int64_t axis = integers_of(in(node, 3))[0];
      std::vector<std::int64_t> chosen;
      for (std::int64_t i = integers_of(in(node, 1))[0]; i < integers_of(in(node, 2))[0]; ++i)
        chosen.push_back(i);
      return taken(x, axis, chosen);
    }
    if (op == "Where") {
      const OnnxTensor &a = in(node, 1), &b = in(node, 2);
      const OnnxTensor of_a = together(x, a, [](double is, double v) { return is != 0 ? v : 0.0; }),
                       of_b = together(x, b, [](double is, double v) { return is != 0 ? 0.0 : v; });
      return together(of_a, of_b, std::plus<>());
    }
    if (op == "Concat") return concatenated(node);
    if (op == "ReduceSum") return summed(x, integers_of(in(node, 1)).at(0), node.integer("keepdims", 1) != 0);
    return of_rows(node, x);
  }

  // Softmax and norms, over the last axis.
  OnnxTensor of_rows(const Node& node, OnnxTensor x) const {
    COMERA_CHECK(node.operation == "Softmax" || node.operation == "LayerNormalization", "operation {}",
                 node.operation);
    COMERA_CHECK(node.integer("axis", -1) == -1, "another axis");
    const std::int64_t size = x.shape.back();
    for (auto row = x.values.begin(); row != x.values.end(); row += size) {
      if (node.operation == "Softmax") {
        const double most = *std::max_element(row, row + size);
        std::for_each(row, row + size, [&](double& v) { v = std::exp(v - most); });
        const double sum = std::accumulate(row, row + size, 0.0);
        std::for_each(row, row + size, [&](double& v) { v /= sum; });
        continue;
      }
      const double mean = std::accumulate(row, row + size, 0.0) / static_cast<double>(size);
      double squares = 0;
      std::for_each(row, row + size, [&](double v) { squares += (v - mean) * (v - mean); });
      const double deviation = std::sqrt(squares / static_cast<double>(size) + node.reals.at("epsilon"));
      for (std::int64_t i = 0; i < size; ++i)
        row[i] = (row[i] - mean) / deviation * in(node, 1).values.at(static_cast<std::size_t>(i)) +
                 in(node, 2).values.at(static_cast<std::size_t>(i));
    }
    return x;
  }

  static OnnxTensor reshaped(OnnxTensor x, Shape shape) {
    for (std::size_t i = 0; i < shape.size(); ++i)
      if (shape[i] == 0) shape[i] = x.shape.at(i);
    const auto open = std::ranges::find(shape, -1);
    if (open != shape.end()) *open = 1, *open = elements(x.shape) / elements(shape);
    COMERA_CHECK(elements(shape) == elements(x.shape), "a shape of {} for {} elements", elements(shape),
                 elements(x.shape));
    x.shape = shape;
    return x;
  }

  static OnnxTensor squeezed(OnnxTensor x, const Shape& axes, bool out) {
    for (const std::int64_t axis : axes) {
      COMERA_CHECK(!out || x.shape.at(static_cast<std::size_t>(axis)) == 1, "axis {} is not 1", axis);
      if (out)
        x.shape.erase(x.shape.begin() + axis);
      else
        x.shape.insert(x.shape.begin() + axis, 1);
    }
    return x;
  }

  static OnnxTensor transposed(const OnnxTensor& x, const Shape& order) {
    OnnxTensor y{{}, {}, x.whole};
    Shape strides(x.shape.size(), 1);
    for (std::size_t i = strides.size() - 1; i > 0; --i) strides[i - 1] = strides[i] * x.shape[i];
    for (const std::int64_t axis : order) y.shape.push_back(x.shape[static_cast<std::size_t>(axis)]);
    for (std::int64_t place = 0; place < elements(y.shape); ++place) {
      std::int64_t rest = place, from = 0;
      for (std::size_t back = y.shape.size(); back-- > 0; rest /= y.shape[back])
        from += rest % y.shape[back] * strides[static_cast<std::size_t>(order[back])];
      y.values.push_back(x.values[static_cast<std::size_t>(from)]);
    }
    return y;
  }

  OnnxTensor concatenated(const Node& node) const {
    OnnxTensor y{in(node, 0).shape, {}, in(node, 0).whole};
    const Around first(y.shape, node.integer("axis", 0));
    y.shape[first.axis] = 0;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) y.shape[first.axis] += in(node, i).shape[first.axis];
    for (std::int64_t b = 0; b < first.before; ++b)
      for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        const Around around(in(node, i).shape, node.integer("axis", 0));
        const auto from = in(node, i).values.begin() + b * around.size * around.behind;
        y.values.insert(y.values.end(), from, from + around.size * around.behind);
      }
    return y;
  }

  static OnnxTensor summed(const OnnxTensor& x, std::int64_t axis, bool keeps) {
    const Around around(x.shape, axis);
    OnnxTensor y{x.shape, std::vector<double>(static_cast<std::size_t>(around.before * around.behind)),
                 x.whole};
    for (std::int64_t b = 0; b < around.before; ++b)
      for (std::int64_t i = 0; i < around.size; ++i)
        for (std::int64_t c = 0; c < around.behind; ++c)
          y.values[b * around.behind + c] += x.values[(b * around.size + i) * around.behind + c];
    y.shape[around.axis] = 1;
    if (!keeps) y.shape.erase(y.shape.begin() + static_cast<std::ptrdiff_t>(around.axis));
    return y;
  }

  OnnxTensors values_;
};

}  // namespace

OnnxTensors run_onnx(const std::string& model, const OnnxTensors& inputs) {
  std::string_view graph;
  for (const Field& field : fields_of(model))
    if (field.number == 7) graph = field.bytes;
  Interpreter interpreter(inputs);
  const std::vector<Field> parts = fields_of(graph);
  for (const Field& field : parts)
    if (field.number == 5) {
      auto [name, tensor] = constant_of(field.bytes);
      interpreter.put(name, std::move(tensor));
    }
  for (const Field& field : parts)
    if (field.number == 1) interpreter.run(node_of(field.bytes));
  OnnxTensors outputs;
  for (const Field& field : parts)
    if (field.number == 12) {
      const std::string name(fields_of(field.bytes).at(0).bytes);
      outputs[name] = interpreter.values().at(name);
    }
  return outputs;
}

}  // namespace comera::test
