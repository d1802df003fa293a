#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "kernels/ops/float8.h"
#include "tests/cpu/world.h"

namespace comera::test {

namespace {

constexpr DType e4m3 = DType::float8_e4m3, e5m2 = DType::float8_e5m2;

Tensor scales_in(World& world, const std::vector<Float8Scale>& scales) {
  std::vector<float> numbers(scales.size() * sizeof(Float8Scale) / sizeof(float));
  if (!scales.empty()) std::memcpy(numbers.data(), scales.data(), scales.size() * sizeof(Float8Scale));
  const Tensor floats = world.chosen_float("scales", numbers);
  return {floats.raw(), {static_cast<std::int64_t>(floats.bytes())}, DType::uint8, floats.device()};
}

Float8Scale scale_of(float scale) { return {.inverse = 1 / scale, .scale = scale}; }

// Multiples of a quarter up to `most`, so that sums of their products are the same in every order and type.
std::vector<float> quarters(std::int64_t count, std::uint32_t seed, int most = 4) {
  std::mt19937 random(seed);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values)
    value = static_cast<float>(static_cast<int>(random() % static_cast<unsigned>(2 * most + 1)) - most) / 4;
  return values;
}

struct QuantizeCase {
  std::string name;
  std::int64_t rows = 0, columns = 0, ld = 0;
  Activation activation = Activation::none;
  DType type = e4m3;
  Float8Quantize::Scaling scaling = Float8Quantize::Scaling::current;
  int margin = 0;
  bool straight = true, transposed = true;
  float at_5 = 0.3F;  // element 5
  Float8Scale before = {.inverse = 0.125F, .scale = 8, .amax = 0.7F};
};

double activated(Activation activation, double u) {
  if (activation == Activation::gelu) return u / 2 * std::erfc(-u / std::sqrt(2.));
  return activation == Activation::tanh ? std::tanh(u) : u;
}

// Whether a value is so far from where codes change that single precision cannot see it differently.
bool is_settled(double value, DType type, float scale) {
  const auto code = [&](double off) {
    const float scaled = static_cast<float>(value + off) * scale;
    return type == e4m3 ? float8_e4m3(scaled).bits : float8_e5m2(scaled).bits;
  };
  const double off = 1e-6 + 1e-5 * std::abs(value);
  return code(off) == code(-off);
}

// Five powers of ten, exact in bfloat16. With an activation, the first element is larger and determines the
// scale.
std::vector<float> numbers_for(const QuantizeCase& c) {
  std::mt19937 random(17);
  const auto draw = [&] {
    return static_cast<float>(bfloat16(std::pow(10.F, static_cast<float>(random() % 5000) / 1000 - 4) *
                                       (random() % 2 == 0 ? 1.F : -1.F)));
  };
  std::vector<float> values(static_cast<std::size_t>(c.rows * (c.ld > 0 ? c.ld : c.columns)));
  for (float& value : values) value = draw();
  if (c.activation != Activation::none) {
    values[0] = 16;
    Float8Scale made = c.before;
    set_float8_scale(static_cast<float>(activated(c.activation, values[0])),
                     c.type == e4m3 ? float8_e4m3::largest : float8_e5m2::largest, c.margin, made);
    for (float& value : values)
      while (!is_settled(activated(c.activation, value), c.type, made.scale) ||
             !is_settled(activated(c.activation, value), c.type, c.before.scale))
        value = draw();
  }
  if (values.size() > 5) values[5] = c.at_5;
  return values;
}

void add_quantize(std::vector<OperationCase>& cases, const QuantizeCase& c) {
  const double tolerance = c.activation == Activation::none ? 0 : 2e-6;
  cases.push_back({"Float8Quantize_" + c.name, tolerance, [c](World& world) {
                     const std::vector<float> values = numbers_for(c);
                     const std::int64_t rows = float8_padded(c.rows), columns = float8_padded(c.columns);
                     Float8Quantize op;
                     op.x = world.chosen("x", {static_cast<std::int64_t>(values.size())}, values);
                     op.rows = c.rows, op.columns = c.columns, op.ld = c.ld;
                     op.activation = c.activation;
                     op.scaling = c.scaling, op.margin = c.margin;
                     op.scale = scales_in(world, {c.before});
                     if (c.straight) op.y = world.codes("y", {rows, columns}, c.type);
                     if (c.transposed) op.transposed = world.codes("transposed", {columns, rows}, c.type);
                     world.run(op);
                   }});
}

// Sums of integers up to 4 are exact on every processor. For other numbers Hopper keeps about 14 bits: each
// addend loses up to 2^-13 of the largest, half of it on average and with either sign, which is about 8 times
// that half for 256 of them; the tolerance is four times as much.
struct ProductCase {
  const char* name;
  std::int64_t m, n, k, lda = 0, ldb = 0, ldc = 0;
  DType a = e4m3, b = e4m3;
  bool accumulate = false, fast = false, wide = false;
};

void add_product(std::vector<OperationCase>& cases, const ProductCase& c) {
  cases.push_back({std::string("Float8Product_") + c.name, c.wide ? 2e-3 : 2e-6, [c](World& world) {
                     Float8Product op;
                     op.m = c.m, op.n = c.n, op.k = c.k, op.lda = c.lda, op.ldb = c.ldb, op.ldc = c.ldc;
                     const double range = c.wide ? 200 : 4;
                     op.a = world.codes("a", {c.m, op.leading_a()}, c.a, range, !c.wide);
                     op.b = world.codes("b", {c.n, op.leading_b()}, c.b, range, !c.wide);
                     op.c = world.output("c", {c.m, op.leading_c()});
                     op.type = op.c.dtype();
                     op.scale_a = scales_in(world, {scale_of(4)});
                     op.scale_b = scales_in(world, {scale_of(0.5F)});
                     op.accumulate = c.accumulate;
                     op.fast = c.fast;
                     world.run(op);
                   }});
}

// A group of one to three outputs with awkward ranks, and additional columns for another reader.
struct LinearCase {
  const char* name;
  std::int64_t tokens = 37, inputs = 48;
  std::vector<std::int64_t> ranks = {30};
  std::int64_t width = 64;
  Float8Options options = {};
  bool with_dxa = false, accumulate = false;
  Activation activation = Activation::none, input_activation = Activation::none;
  double tolerance = 2e-6;
};

struct LinearShape {
  std::vector<std::int64_t> columns;
  std::int64_t total = 0;
};

LinearShape shape_of(const LinearCase& c) {
  LinearShape shape;
  for (const std::int64_t rank : c.ranks) {
    shape.columns.push_back(shape.total);
    shape.total += float8_padded(rank);
  }
  shape.total += c.with_dxa ? 16 : 0;
  return shape;
}

std::vector<Float8Scale> used_scales() {
  std::vector<Float8Scale> scales(Float8Slots::count);
  for (std::size_t i = 0; i < scales.size(); ++i) scales[i] = scale_of(i % 2 == 0 ? 16 : 4);
  return scales;
}

// a with zeros in the columns that no B has a row for.
std::vector<float> padded_a(const LinearCase& c, const LinearShape& shape) {
  std::vector<float> a = quarters(c.inputs * shape.total, 2, 2);
  for (std::int64_t row = 0; row < c.inputs; ++row)
    for (std::size_t i = 0; i < c.ranks.size(); ++i)
      for (std::int64_t column = shape.columns[i] + c.ranks[i];
           column < shape.columns[i] + float8_padded(c.ranks[i]); ++column)
        a[static_cast<std::size_t>(row * shape.total + column)] = 0;
  return a;
}

void add_linear(std::vector<OperationCase>& cases, const LinearCase& c) {
  cases.push_back({std::string("Float8LinearForward_") + c.name, c.tolerance, [c](World& world) {
                     const LinearShape shape = shape_of(c);
                     Float8LinearForward op;
                     op.options = c.options;
                     op.input_activation = c.input_activation;
                     op.scales = scales_in(world, used_scales());
                     TTLinearForward& linear = op.linear;
                     linear.x = world.chosen("x", {c.tokens, c.inputs}, quarters(c.tokens * c.inputs, 1, 2));
                     linear.a = world.chosen("a", {c.inputs, shape.total}, padded_a(c, shape));
                     linear.xa = world.output("xa", {c.tokens, shape.total});
                     for (std::size_t i = 0; i < c.ranks.size(); ++i) {
                       auto& out = linear.output[static_cast<std::size_t>(linear.outputs++)];
                       out.column = shape.columns[i];
                       out.b = world.chosen("b", {c.ranks[i], c.width}, quarters(c.ranks[i] * c.width, 3));
                       out.bias = world.master({c.width});
                       out.activation = c.activation;
                       out.u = world.output("u", {c.tokens, c.width});
                       if (c.activation != Activation::none) out.y = world.output("y", {c.tokens, c.width});
                     }
                     world.run(op);
                   }});
  cases.push_back(
      {std::string("Float8LinearBackward_") + c.name, c.tolerance, [c](World& world) {
         const LinearShape shape = shape_of(c);
         Float8LinearBackward op;
         op.options = c.options;
         op.input_activation = c.input_activation;
         op.scales = scales_in(world, used_scales());
         TTLinearBackward& linear = op.linear;
         linear.x = world.chosen("x", {c.tokens, c.inputs}, quarters(c.tokens * c.inputs, 1, 2));
         linear.a = world.chosen("a", {c.inputs, shape.total}, padded_a(c, shape));
         linear.xa = world.chosen("xa", {c.tokens, shape.total}, quarters(c.tokens * shape.total, 4));
         linear.da = world.master_output("da", {c.inputs, shape.total});
         linear.dx = world.output("dx", {c.tokens, c.inputs});
         linear.accumulate_dx = c.accumulate;
         if (c.with_dxa)
           linear.dxa = world.chosen("dxa", {c.tokens, shape.total}, quarters(c.tokens * shape.total, 5));
         for (std::size_t i = 0; i < c.ranks.size(); ++i) {
           auto& out = linear.output[static_cast<std::size_t>(linear.outputs++)];
           out.column = shape.columns[i];
           out.b = world.chosen("b", {c.ranks[i], c.width}, quarters(c.ranks[i] * c.width, 3));
           out.db = world.master_output("db", {c.ranks[i], c.width});
           out.dbias = world.master_output("dbias", {c.width});
           out.activation = c.activation;
           if (c.activation != Activation::none) {
             out.u = world.input({c.tokens, c.width});
             out.y = world.input({c.tokens, c.width});
           }
           out.dy = world.chosen("dy", {c.tokens, c.width}, quarters(c.tokens * c.width, 6));
         }
         world.run(op);
       }});
}

void add_expand(std::vector<OperationCase>& cases, const std::string& name, std::int64_t count, DType type) {
  cases.push_back({"Float8Expand_" + name, 0, [=](World& world) {
                     Float8Expand op;
                     op.x = world.codes("x", {count}, type);
                     op.scale = scales_in(world, {scale_of(4)});
                     op.y = world.output("y", {count});
                     world.run(op);
                   }});
}

struct NextScalesCase {
  const char* name;
  std::int64_t length = 3, position = 4;
  bool nonfinite = false;
  float amax = 700;
  std::size_t tensors = 3;
};

void add_next_scales(std::vector<OperationCase>& cases, const NextScalesCase& c) {
  cases.push_back({std::string("Float8NextScales_") + c.name, 0, [c](World& world) {
                     Float8NextScales op;
                     const Float8Scale before{.inverse = 0.5F, .scale = 2, .amax = c.amax};
                     std::vector<Float8Scale> scales = {before, scale_of(1), before};
                     std::vector<float> largest = {448, 448, 57344};
                     scales.resize(c.tensors), largest.resize(c.tensors);
                     op.scales = scales_in(world, scales);
                     op.largest = world.floats(largest);
                     const auto tensors = static_cast<std::int64_t>(c.tensors);
                     std::vector<float> history(static_cast<std::size_t>(tensors * c.length));
                     for (std::size_t i = 0; i < history.size(); ++i)
                       history[i] =
                           i / static_cast<std::size_t>(c.length) == 1 ? 0 : static_cast<float>(i * i);
                     op.history = world.chosen_float("history", history).reshape({tensors, c.length});
                     op.position = world.chosen_integer("position", c.position);
                     StepResults results;
                     results.nonfinite = c.nonfinite ? 1 : 0;
                     op.results = world.results(results);
                     op.margin = 1;
                     world.run(op);
                   }});
}

}  // namespace

void add_float8_cases(std::vector<OperationCase>& cases) {
  using Scaling = Float8Quantize::Scaling;
  constexpr float infinity = std::numeric_limits<float>::infinity(),
                  nan = std::numeric_limits<float>::quiet_NaN();
  add_quantize(cases, {.name = "both", .rows = 37, .columns = 70});
  add_quantize(cases, {.name = "straight", .rows = 130, .columns = 16, .transposed = false});
  add_quantize(cases, {.name = "transposed", .rows = 5, .columns = 200, .straight = false});
  add_quantize(cases, {.name = "apart", .rows = 21, .columns = 33, .ld = 50});
  add_quantize(cases, {.name = "gradients", .rows = 37, .columns = 70, .type = e5m2, .margin = 2});
  add_quantize(cases, {.name = "delayed", .rows = 70, .columns = 70, .scaling = Scaling::delayed});
  add_quantize(cases, {.name = "delayed_larger_before",
                       .rows = 3,
                       .columns = 5,
                       .scaling = Scaling::delayed,
                       .before = {.inverse = 1, .scale = 1, .amax = 1e6F}});
  add_quantize(cases, {.name = "kept", .rows = 20, .columns = 20, .scaling = Scaling::kept});
  add_quantize(cases, {.name = "one", .rows = 1, .columns = 1});
  add_quantize(cases, {.name = "nothing", .rows = 0, .columns = 7});
  for (const Scaling scaling : {Scaling::current, Scaling::delayed}) {
    const bool current = scaling == Scaling::current;
    add_quantize(cases, {.name = current ? "infinity" : "infinity_delayed",
                         .rows = 4,
                         .columns = 4,
                         .scaling = scaling,
                         .at_5 = -infinity});
    add_quantize(
        cases,
        {.name = current ? "nan" : "nan_delayed", .rows = 4, .columns = 4, .scaling = scaling, .at_5 = nan});
  }
  for (const Activation activation : {Activation::gelu, Activation::tanh}) {
    const auto add = [&](QuantizeCase c) {
      c.name += activation == Activation::gelu ? "_gelu" : "_tanh";
      c.activation = activation;
      add_quantize(cases, c);
    };
    add({.name = "both", .rows = 37, .columns = 70});
    add({.name = "straight", .rows = 130, .columns = 16, .transposed = false});
    add({.name = "transposed", .rows = 5, .columns = 200, .straight = false});
    add({.name = "apart", .rows = 21, .columns = 33, .ld = 50});
    add({.name = "gradients", .rows = 37, .columns = 70, .type = e5m2, .margin = 2});
    add({.name = "delayed", .rows = 70, .columns = 70, .scaling = Scaling::delayed});
    add({.name = "kept", .rows = 20, .columns = 20, .scaling = Scaling::kept});
    add({.name = "one", .rows = 1, .columns = 1});
    add({.name = "nothing", .rows = 7, .columns = 0, .ld = 3});
    for (const Scaling scaling : {Scaling::current, Scaling::delayed}) {
      const std::string whose = scaling == Scaling::current ? "" : "_delayed";
      add({.name = "infinity" + whose, .rows = 4, .columns = 5, .scaling = scaling, .at_5 = infinity});
      add({.name = "minus_infinity" + whose, .rows = 4, .columns = 5, .scaling = scaling, .at_5 = -infinity});
      add({.name = "nan" + whose, .rows = 4, .columns = 5, .scaling = scaling, .at_5 = nan});
    }
  }

  add_product(cases, {.name = "e4m3", .m = 37, .n = 48, .k = 64});
  add_product(cases, {.name = "e5m2_e4m3", .m = 5, .n = 16, .k = 32, .a = e5m2});
  add_product(cases,
              {.name = "e4m3_e5m2_accumulate", .m = 33, .n = 32, .k = 16, .b = e5m2, .accumulate = true});
  add_product(cases, {.name = "apart", .m = 20, .n = 16, .k = 16, .lda = 48, .ldb = 32, .ldc = 64});
  add_product(cases, {.name = "nothing", .m = 0, .n = 16, .k = 16});
  add_product(cases, {.name = "fast", .m = 20, .n = 32, .k = 256, .fast = true});
  add_product(cases, {.name = "wide", .m = 20, .n = 32, .k = 256, .wide = true});
  add_product(cases,
              {.name = "wide_fast", .m = 20, .n = 32, .k = 256, .b = e5m2, .fast = true, .wide = true});

  add_linear(cases, {.name = "one"});
  add_linear(cases, {.name = "group", .ranks = {13, 16, 19}, .with_dxa = true, .accumulate = true});
  add_linear(cases, {.name = "delayed", .options = {.delayed = true, .margin = 1}});
  add_linear(cases, {.name = "evaluated", .options = {.delayed = true, .record = false}});
  add_linear(cases, {.name = "e4m3_only", .options = {.gradients = e4m3}});
  // Whether a code is rounded up or down may depend on the last bit of the quantised value.
  add_linear(cases, {.name = "gelu", .activation = Activation::gelu, .tolerance = 2e-2});

  // Values of GELU are not multiples of a quarter, and Hopper truncates their sums.
  add_linear(cases, {.name = "of_gelu", .input_activation = Activation::gelu, .tolerance = 2e-4});
  add_linear(cases, {.name = "of_tanh",
                     .ranks = {13, 16, 19},
                     .options = {.delayed = true},
                     .input_activation = Activation::tanh});

  add_next_scales(cases, {.name = "ring"});
  add_next_scales(cases, {.name = "long", .length = 300, .position = 299});
  add_next_scales(cases, {.name = "infinite", .amax = infinity});
  add_next_scales(cases, {.name = "nan", .amax = nan});
  add_next_scales(cases, {.name = "nonfinite_step", .nonfinite = true});
  add_next_scales(cases, {.name = "largest_number", .amax = std::numeric_limits<float>::max()});
  add_next_scales(cases, {.name = "one", .tensors = 1});
  add_next_scales(cases, {.name = "none", .tensors = 0});

  add_expand(cases, "one", 1, e4m3);
  add_expand(cases, "many", 1000, e4m3);
  add_expand(cases, "gradients", 300, e5m2);
  add_expand(cases, "nothing", 0, e4m3);
}

}  // namespace comera::test
