#include "exchange/onnx/onnx_layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "exchange/transformers/transformers_folder.h"
#include "kernels/core/check.h"
#include "tensorized/decomposition/svd.h"

namespace comera::exchange {

namespace {

constexpr double most_int8 = 63;
const std::string token_table = std::string(EncoderConfig::embedding_layer);

std::int64_t product_of(const OnnxGraph::Shape& sizes) {
  std::int64_t product = 1;
  for (const std::int64_t size : sizes) product *= size;
  return product;
}

// Whole numbers by columns (inputs, outputs), and each column's scale.
struct Int8Weight {
  std::vector<std::int8_t> values;
  std::vector<double> scales;
};
Int8Weight int8_of(const std::vector<double>& values, std::int64_t columns) {
  Int8Weight rounded{.values = std::vector<std::int8_t>(values.size()),
                     .scales = std::vector<double>(static_cast<std::size_t>(columns))};
  const auto column = [&](std::size_t i) { return i % static_cast<std::size_t>(columns); };
  for (std::size_t i = 0; i < values.size(); ++i)
    rounded.scales[column(i)] = std::max(rounded.scales[column(i)], std::abs(values[i]) / most_int8);
  for (double& scale : rounded.scales)
    if (scale == 0) scale = 1;
  for (std::size_t i = 0; i < values.size(); ++i)
    rounded.values[i] = static_cast<std::int8_t>(std::lround(values[i] / rounded.scales[column(i)]));
  return rounded;
}

}  // namespace

std::optional<OnnxLayers::Weight> OnnxLayers::find(const std::string& name) const {
  const ParameterStore& store = model_.parameters();
  const auto id = store.find(name);
  if (!id) return std::nullopt;
  const auto sizes = store.info(*id).shape.sizes();
  return Weight{{sizes.begin(), sizes.end()}, exported_values(store, *id)};
}

OnnxLayers::Weight OnnxLayers::get(const std::string& name) const {
  std::optional<Weight> weight = find(name);
  COMERA_CHECK(weight, "the model has no parameter {}", name);
  return std::move(*weight);
}

OnnxLayers::Value OnnxLayers::parameter(const std::string& name) {
  const Weight weight = get(name);
  return graph_.floats(name, weight.shape, weight.values);
}

std::vector<OnnxLayers::Weight> OnnxLayers::cores(const std::string& layer) const {
  std::vector<Weight> cores;
  while (auto core = find(fmt::format("{}.core.{}", layer, cores.size()))) cores.push_back(std::move(*core));
  return cores;
}

OnnxLayers::Weight OnnxLayers::contracted(const std::vector<Weight>& cores, std::size_t first,
                                          std::size_t last) {
  Weight merged = cores[first];
  for (std::size_t k = first + 1; k < last; ++k) {
    const Weight& core = cores[k];
    const std::int64_t inner = core.shape[0], columns = product_of(core.shape) / inner,
                       rows = std::ssize(merged.values) / inner;
    std::vector<double> next(static_cast<std::size_t>(rows * columns));
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t i = 0; i < inner; ++i) {
        const double factor = merged.values[r * inner + i];
        for (std::int64_t c = 0; c < columns; ++c)
          next[r * columns + c] += factor * core.values[i * columns + c];
      }
    merged.shape.pop_back();
    merged.shape.insert(merged.shape.end(), core.shape.begin() + 1, core.shape.end());
    merged.values = std::move(next);
  }
  return merged;
}

OnnxLayers::Value OnnxLayers::product(const Value& x, const std::string& name, const Weight& weight) {
  if (int8_) return int8_product(x, name, weight);
  return graph_.node("MatMul", {x, graph_.floats(name, weight.shape, weight.values)});
}

OnnxLayers::Value OnnxLayers::int8_product(const Value& x, const std::string& name, const Weight& weight) {
  const std::string scales = name + ".scales";
  if (!graph_.has(name)) {
    const Int8Weight rounded = int8_of(weight.values, weight.shape[1]);
    graph_.bytes(name, weight.shape, rounded.values);
    graph_.floats(scales, {weight.shape[1]}, rounded.scales);
  }
  return multiply_int8(x, name, scales);
}

OnnxLayers::Value OnnxLayers::multiply_int8(const Value& x, const Value& weight, const Value& scales) {
  std::vector<Value>& rounded = rounded_[x];  // Q, K and V have one input
  if (rounded.empty()) rounded = graph_.nodes("DynamicQuantizeLinear", {x}, 3);
  const Value sums = graph_.node("MatMulInteger", {rounded[0], weight, rounded[2]});
  const Value scaled =
      graph_.node("Mul", {graph_.node("Cast", {sums}, {{"to", std::int64_t{1}}}), rounded[1]});
  return graph_.node("Mul", {scaled, scales});
}

OnnxLayers::Value OnnxLayers::linear(const std::string& layer, const Value& x) {
  const Value bias = parameter(layer + ".bias");
  const std::int64_t outputs = get(layer + ".bias").shape[0];
  Value y;
  std::int64_t inputs = 0;
  if (const auto weight = find(layer + ".weight")) {
    y = product(x, layer + ".weight", *weight);
  } else if (const std::vector<Weight> train = cores(layer); !train.empty()) {
    std::size_t left = train.size();  // cores of the input modes
    for (std::int64_t rest = outputs; rest > 1; rest /= train[left].shape[1]) --left;
    const Weight a = contracted(train, 0, left), b = contracted(train, left, train.size());
    const std::int64_t rank = a.shape.back();
    inputs = std::ssize(a.values) / rank;
    y = product(x, layer + ".left", {{inputs, rank}, a.values});
    y = product(y, layer + ".right", {{rank, outputs}, b.values});
  }
  if (const auto beside = find(layer + ".diagonal")) {
    const std::int64_t entries = std::ssize(beside->values);
    if (inputs == 0) inputs = outputs < entries ? entries : model_.config().hidden;
    const Value passed = diagonal(layer, x, inputs, outputs);
    y = y.empty() ? passed : graph_.node("Add", {y, passed});
  }
  if (!y.empty()) return graph_.node("Add", {y, bias});
  // A removed layer.
  const Value lead = graph_.node("Shape", {x}, {{"end", std::int64_t{-1}}});
  return graph_.node("Expand", {bias, graph_.node("Concat", {lead, graph_.integers({outputs})},
                                                  {{"axis", std::int64_t{0}}})});
}

// From each input to the outputs of its index modulo the smaller size.
OnnxLayers::Value OnnxLayers::diagonal(const std::string& layer, const Value& x, std::int64_t inputs,
                                       std::int64_t outputs) {
  const Value entries = parameter(layer + ".diagonal");
  if (outputs >= inputs) {
    const std::vector<Value> repeated(static_cast<std::size_t>(outputs / inputs), x);
    return graph_.node(
        "Mul",
        {repeated.size() == 1 ? x : graph_.node("Concat", repeated, {{"axis", std::int64_t{-1}}}), entries});
  }
  const Value product = graph_.node("Mul", {x, entries});
  return graph_.node("ReduceSum", {reshape(product, {0, 0, -1, outputs}), graph_.integers({-2})},
                     {{"keepdims", std::int64_t{0}}});
}

OnnxLayers::Value OnnxLayers::norm(const std::string& layer, const Value& x) {
  return graph_.node("LayerNormalization", {x, parameter(layer + ".weight"), parameter(layer + ".bias")},
                     {{"axis", std::int64_t{-1}}, {"epsilon", static_cast<float>(model_.config().norm_eps)}});
}

OnnxLayers::Value OnnxLayers::activation(Activation activation, const Value& x) {
  const auto times = [&](const Value& a, const Value& b) { return graph_.node("Mul", {a, b}); };
  const auto number = [&](double value) { return graph_.scalar(value); };
  switch (activation) {
    case Activation::none:
      return x;
    case Activation::relu:
      return graph_.node("Relu", {x});
    case Activation::tanh:
      return graph_.node("Tanh", {x});
    case Activation::silu:
      return times(x, graph_.node("Sigmoid", {x}));
    case Activation::gelu: {
      const Value erf = graph_.node("Erf", {graph_.node("Div", {x, number(std::numbers::sqrt2)})});
      return times(times(x, graph_.node("Add", {erf, number(1)})), number(0.5));
    }
    case Activation::gelu_tanh: {
      const Value cube = times(times(x, x), times(x, number(0.044715)));
      const Value inner = times(graph_.node("Add", {x, cube}), number(std::sqrt(2 / std::numbers::pi)));
      return times(times(x, graph_.node("Add", {graph_.node("Tanh", {inner}), number(1)})), number(0.5));
    }
  }
  throw Error("an activation that ONNX does not have");
}

OnnxLayers::TableFactors OnnxLayers::table_factors() const {
  const std::vector<Weight> train = cores(token_table);
  const std::size_t left = train.size() - train.size() / 2;
  // (r, R_1, C_1, R_2, C_2, ..., s) -> (R_1 R_2 ..., C_1 C_2 ..., s), and the other way with the rank
  // between.
  const auto factor = [&](std::size_t first, std::size_t last, bool rank_between) {
    const Weight merged = contracted(train, first, last);
    const auto modes = static_cast<std::size_t>(last - first);
    std::int64_t rows = 1, columns = 1;
    for (std::size_t k = 0; k < modes; ++k)
      rows *= merged.shape[1 + 2 * k], columns *= merged.shape[2 + 2 * k];
    const std::int64_t before = merged.shape.front(), rank = rank_between ? before : merged.shape.back();
    Weight to{{rows, rank_between ? rank : columns, rank_between ? columns : rank}, {}};
    to.values.resize(merged.values.size());
    for (std::int64_t at = 0; at < std::ssize(merged.values); ++at) {
      std::int64_t rest = at, row = 0, column = 0, row_stride = 1, column_stride = 1;
      const std::int64_t behind = rest % merged.shape.back();
      rest /= merged.shape.back();
      for (std::size_t k = modes; k-- > 0;) {
        column += rest % merged.shape[2 + 2 * k] * column_stride;
        rest /= merged.shape[2 + 2 * k];
        row += rest % merged.shape[1 + 2 * k] * row_stride;
        rest /= merged.shape[1 + 2 * k];
        row_stride *= merged.shape[1 + 2 * k];
        column_stride *= merged.shape[2 + 2 * k];
      }
      const std::int64_t place =
          rank_between ? (row * rank + rest) * columns + column : (row * columns + column) * rank + behind;
      to.values[static_cast<std::size_t>(place)] = merged.values[static_cast<std::size_t>(at)];
    }
    return to;
  };
  TableFactors factors{factor(0, left, false), {{1, 1, 1}, {1}}};
  if (left < train.size()) factors.right = factor(left, train.size(), true);
  return factors;
}

OnnxLayers::Value OnnxLayers::look_up(const Value& ids) {
  if (const auto weight = find(token_table + ".weight")) {
    if (!int8_)
      return graph_.node("Gather",
                         {graph_.floats(token_table + ".weight", weight->shape, weight->values), ids});
    const Int8Weight rounded =
        int8_of(transposed(weight->values, weight->shape[0], weight->shape[1]), weight->shape[0]);
    std::vector<std::int8_t> rows(rounded.values.size());
    const std::int64_t vocabulary = weight->shape[0], width = weight->shape[1];
    for (std::int64_t r = 0; r < vocabulary; ++r)
      for (std::int64_t c = 0; c < width; ++c) rows[r * width + c] = rounded.values[c * vocabulary + r];
    graph_.bytes(token_table + ".weight", weight->shape, rows);
    graph_.floats(token_table + ".scales", {vocabulary, 1}, rounded.scales);
    const Value found = graph_.node("Cast", {graph_.node("Gather", {token_table + ".weight", ids})},
                                    {{"to", std::int64_t{1}}});
    return graph_.node("Mul", {found, graph_.node("Gather", {token_table + ".scales", ids})});
  }
  const TableFactors factors = table_factors();
  const Value rows = graph_.integer(factors.right.shape[0]);
  const Value left =
      graph_.node("Gather", {graph_.floats(token_table + ".left", factors.left.shape, factors.left.values),
                             graph_.node("Div", {ids, rows})});
  const Value right =
      graph_.node("Gather", {graph_.floats(token_table + ".right", factors.right.shape, factors.right.values),
                             graph_.node("Mod", {ids, rows})});
  const std::int64_t width = factors.left.shape[1] * factors.right.shape[2];
  Value found = reshape(graph_.node("MatMul", {left, right}), {0, 0, width});
  if (const auto frequent = find(token_table + ".frequent")) {
    const Value own = graph_.node("Less", {ids, graph_.integer(frequent->shape[0])});
    const Value places = graph_.node("Where", {own, ids, graph_.integer(0)});
    const Value kept = graph_.node(
        "Gather", {graph_.floats(token_table + ".frequent", frequent->shape, frequent->values), places});
    found = graph_.node("Where", {graph_.node("Unsqueeze", {own, graph_.integers({2})}), kept, found});
  }
  if (const auto projection = find(token_table + ".projection"))
    return product(found, token_table + ".projection", *projection);
  return found;
}

OnnxLayers::Value OnnxLayers::decode(const Value& x) {
  if (const auto weight = find(token_table + ".weight")) {
    const Value decoder =
        graph_.node("Transpose", {token_table + ".weight"}, {{"perm", OnnxGraph::Shape{1, 0}}});
    if (!int8_) return graph_.node("MatMul", {x, decoder});
    return multiply_int8(x, decoder, reshape(token_table + ".scales", {-1}));
  }
  const TableFactors factors = table_factors();
  const auto &left = factors.left.shape, &right = factors.right.shape;
  Value narrow = x;
  if (const auto projection = find(token_table + ".projection"))
    narrow = product(x, token_table + ".projection.transposed",
                     {{projection->shape[1], projection->shape[0]},
                      transposed(projection->values, projection->shape[0], projection->shape[1])});
  // h (columns left, columns right) -> inner (columns left, rank, rows right) -> (rows left, rows right)
  std::vector<double> to_rows(factors.right.values.size());  // (columns, rank, rows)
  for (std::int64_t r = 0; r < right[0]; ++r)
    for (std::int64_t k = 0; k < right[1]; ++k)
      for (std::int64_t b = 0; b < right[2]; ++b)
        to_rows[(b * right[1] + k) * right[0] + r] = factors.right.values[(r * right[1] + k) * right[2] + b];
  const Value matrix = reshape(narrow, {0, 0, left[1], right[2]});
  const Value inner = graph_.node(
      "MatMul",
      {matrix, graph_.floats(token_table + ".right.decoder", {right[2], right[1] * right[0]}, to_rows)});
  const Value rows = reshape(token_table + ".left", {left[0], left[1] * left[2]});
  const Value all = graph_.node("MatMul", {rows, reshape(inner, {0, 0, left[1] * left[2], right[0]})});
  Value logits = reshape(all, {0, 0, left[0] * right[0]});
  const std::int64_t vocabulary = model_.config().vocabulary;
  const auto frequent = find(token_table + ".frequent");
  const std::int64_t own = frequent ? frequent->shape[0] : 0;
  if (own > 0 || left[0] * right[0] != vocabulary)
    logits = graph_.node(
        "Slice", {logits, graph_.integers({own}), graph_.integers({vocabulary}), graph_.integers({-1})});
  if (own == 0) return logits;
  const Value first = graph_.node("MatMul", {narrow, graph_.node("Transpose", {token_table + ".frequent"},
                                                                 {{"perm", OnnxGraph::Shape{1, 0}}})});
  return graph_.node("Concat", {first, logits}, {{"axis", std::int64_t{-1}}});
}

}  // namespace comera::exchange
