#include <fmt/core.h>

#include "kernels/ops/elementwise/bias_activation.h"
#include "kernels/ops/elementwise/dropout.h"
#include "kernels/ops/elementwise/layout.h"
#include "kernels/ops/tensor_trains/diagonal.h"
#include "kernels/ops/tensor_trains/scale_columns.h"
#include "tests/operations/op_test_context.h"

namespace comera::test {

namespace {
struct Size {
  std::int64_t rows, width;
};

void bias_activation_cases(std::vector<OperationCase>& cases, Size size, Activation activation, bool bias) {
  const std::string name =
      fmt::format("{}_{}_{}{}", size.rows, size.width, traits_of(activation).name, bias ? "" : "_no_bias");
  cases.push_back({"BiasActivationForward_" + name, 3e-6, [=](OpTestContext& world) {
                     BiasActivationForward op;
                     op.u = world.output("u", {size.rows, size.width}, 5), op.activation = activation;
                     if (bias) op.bias = world.master({size.width});
                     if (slope_by_argument(activation)) op.y = world.output("y", {size.rows, size.width});
                     if (slope_by_value(activation)) op.y = op.u;
                     world.run(op);
                   }});
  cases.push_back({"BiasActivationBackward_" + name, 3e-6, [=](OpTestContext& world) {
                     BiasActivationBackward op;
                     op.dy = world.output("dy", {size.rows, size.width}), op.activation = activation;
                     if (slope_by_argument(activation)) op.u = world.input({size.rows, size.width}, 5);
                     if (slope_by_value(activation)) op.y = world.input({size.rows, size.width});
                     if (bias) op.dbias = world.master_output("dbias", {size.width});
                     world.run(op);
                   }});
}
}  // namespace

void add_elementwise_cases(std::vector<OperationCase>& cases) {
  for (const Size& size : {Size{1, 1}, {7, 13}, {71, 229}, {515, 96}}) {
    for (const Activation activation : all_activations) {
      bias_activation_cases(cases, size, activation, size.rows != 7);
    }
  }
  for (std::int64_t elements : {1, 36, 37, 48, 40960, 40961}) {
    for (double probability : {0., 0.1}) {
      cases.push_back({fmt::format("Dropout_{}{}", elements, probability > 0 ? "" : "_off"), 1e-6,
                       [=](OpTestContext& world) {
                         Dropout op;
                         op.x = world.input({elements}), op.dropout = {probability, 9};
                         op.step_inputs = world.step_inputs(example_step());
                         op.y = world.output("y", {elements});
                         world.run(op);
                       }});
    }
    cases.push_back({fmt::format("Add_{}", elements), 1e-6, [=](OpTestContext& world) {
                       Add op;
                       op.x = world.input({elements}), op.y = world.output("y", {elements});
                       world.run(op);
                     }});
    cases.push_back({fmt::format("Cast_{}", elements), 1e-6, [=](OpTestContext& world) {
                       Cast op;
                       op.x = world.master({elements}), op.y = world.output("y", {elements});
                       world.run(op);
                     }});
    cases.push_back({fmt::format("Fill_{}", elements), 1e-6, [=](OpTestContext& world) {
                       Fill op;
                       op.x = world.output("x", {elements}), op.value = 3.25;
                       world.run(op);
                     }});
  }
  for (const Shape& shape : {Shape{1, 1, 1, 1},
                             {3, 5, 7, 2},
                             {2, 71, 131, 1},
                             {3, 17, 70, 24},
                             {3, 17, 70, 8},
                             {2, 33, 66, 16},
                             {1, 300, 5, 1}}) {
    cases.push_back({fmt::format("SwapAxes_{}_{}_{}_{}", shape[0], shape[1], shape[2], shape[3]), 0,
                     [=](OpTestContext& world) {
                       SwapAxes op;
                       op.x = world.input(shape);
                       op.y = world.output("y", {shape[0], shape[2], shape[1], shape[3]});
                       world.run(op);
                     }});
  }
  struct Sizes {
    std::int64_t rows, inputs, outputs;
  };
  for (const Sizes& sizes : {Sizes{1, 1, 1},
                             {71, 37, 37},
                             {40, 12, 36},
                             {300, 64, 256},
                             {65, 256, 64},
                             {7, 15, 5},
                             {130, 4, 8},
                             {9, 33, 11}}) {
    const std::int64_t rows = sizes.rows, inputs = sizes.inputs, outputs = sizes.outputs;
    const std::string name = fmt::format("{}_{}_{}", rows, inputs, outputs);
    const std::int64_t wide = std::max(inputs, outputs);
    cases.push_back({"DiagonalForward_" + name, 2e-6, [=](OpTestContext& world) {
                       DiagonalForward op;
                       op.x = world.input({rows, inputs}), op.diagonal = world.master({wide});
                       op.u = world.output("u", {rows, outputs});
                       world.run(op);
                     }});
    cases.push_back({"DiagonalBackward_" + name, 4e-6, [=](OpTestContext& world) {
                       DiagonalBackward op;
                       op.x = world.input({rows, inputs}), op.diagonal = world.master({wide});
                       op.du = world.input({rows, outputs}), op.dx = world.output("dx", {rows, inputs});
                       op.ddiagonal = world.master_output("ddiagonal", {wide});
                       world.run(op);
                     }});
  }
  // Widths that may and may not be moved four at a time, among others' rows or not, and beginning where four
  // may not be moved although width and distance would allow it.
  struct Columns {
    std::int64_t width, ld, begin;
  };
  for (const Columns& columns : {Columns{37, 0, 0}, {37, 40, 0}, {36, 40, 0}, {36, 40, 3}}) {
    const std::int64_t rows = 71, width = columns.width, ld = columns.ld, begin = columns.begin;
    const Shape among{rows + 1, ld > 0 ? ld : width};
    const std::string name = fmt::format("{}_{}_{}", width, ld, begin);
    cases.push_back({"ScaleColumnsForward_" + name, 1e-6, [=](OpTestContext& world) {
                       ScaleColumnsForward op;
                       op.x = world.input({rows, width}), op.gate = world.input({width});
                       op.y = world.output("y", among).slice(begin, {rows, among[1]}), op.ldy = ld;
                       world.run(op);
                     }});
    cases.push_back({"ScaleColumnsBackward_" + name, 4e-6, [=](OpTestContext& world) {
                       ScaleColumnsBackward op;
                       op.x = world.input({rows, width}), op.gate = world.input({width});
                       op.dy = world.input(among).slice(begin, {rows, among[1]}), op.ldy = ld;
                       op.dx = world.output("dx", {rows, width}), op.dgate = world.output("dgate", {width});
                       op.accumulate_dx = ld > 0;
                       world.run(op);
                     }});
  }
}

}  // namespace comera::test
