#include <fmt/core.h>

#include "kernels/ops/bias_dropout_residual_norm.h"
#include "kernels/ops/layer_norm.h"
#include "tests/cpu/world.h"

namespace comera::test {

namespace {
struct Size {
  std::int64_t rows, width;
};

// Including the sums left for later, if any.
template <class Operation>
void run_with_later(World& world, Operation& op, std::int64_t numbers) {
  WeightGradients later{.type = op.dy.dtype()};
  op.later = {&later, world.master({LaterSums::most_parts * numbers})};
  world.run(op);
  if (!later.empty()) world.run(later);
}

void layer_norm_cases(std::vector<OperationCase>& cases, Size size, bool in_place) {
  const std::string name = fmt::format("{}_{}{}", size.rows, size.width, in_place ? "_in_place" : "");
  cases.push_back({"LayerNormForward_" + name, 4e-6, [=](World& world) {
                     LayerNormForward op;
                     const Shape shape{size.rows, size.width};
                     op.x = world.output("x", shape);
                     op.gamma = world.master({size.width}), op.beta = world.master({size.width});
                     op.eps = 1e-9;
                     op.y = in_place ? op.x : world.output("y", shape);
                     op.mean = world.statistic("mean", {size.rows}),
                     op.rstd = world.statistic("rstd", {size.rows});
                     world.run(op);
                   }});
  cases.push_back({"LayerNormBackward_" + name, 4e-6, [=](World& world) {
                     LayerNormBackward op;
                     const Shape shape{size.rows, size.width};
                     op.x = world.input(shape), op.gamma = world.master({size.width});
                     op.mean = world.master({size.rows}, 0.1), op.rstd = world.master({size.rows}, 2);
                     op.dy = world.output("dy", shape);
                     op.dx = in_place ? op.dy : world.output("dx", shape);
                     op.accumulate_dx = !in_place && size.rows % 2 == 1;
                     op.dgamma = world.master_output("dgamma", {size.width});
                     op.dbeta = world.master_output("dbeta", {size.width});
                     if (in_place)
                       run_with_later(world, op, 2 * size.width);
                     else
                       world.run(op);
                   }});
}

void block_end_cases(std::vector<OperationCase>& cases, Size size, bool norm, double probability,
                     bool in_place) {
  const std::string name = fmt::format("{}_{}{}{}{}", size.rows, size.width, norm ? "" : "_no_norm",
                                       probability > 0 ? "_dropout" : "", in_place ? "_in_place" : "");
  cases.push_back({"BiasDropoutResidualNormForward_" + name, 6e-6, [=](World& world) {
                     BiasDropoutResidualNormForward op;
                     const Shape shape{size.rows, size.width};
                     op.x = world.output("x", shape), op.bias = world.master({size.width});
                     op.residual = world.input(shape), op.dropout = {probability, 11};
                     if (probability > 0) op.step_inputs = world.step_inputs(example_step());
                     op.sum = in_place ? op.x : world.output("sum", shape);
                     op.eps = 1e-9;
                     if (norm) {
                       op.gamma = world.master({size.width}), op.beta = world.master({size.width});
                       op.normed = world.output("normed", shape);
                       // Of the sum as stored, in a narrow type.
                       op.mean = world.master_output("mean", {size.rows});
                       op.rstd = world.master_output("rstd", {size.rows});
                     }
                     world.run(op);
                   }});
  cases.push_back({"BiasDropoutResidualNormBackward_" + name, 4e-6, [=](World& world) {
                     BiasDropoutResidualNormBackward op;
                     const Shape shape{size.rows, size.width};
                     op.dy = world.output("dy", shape), op.dropout = {probability, 11};
                     if (probability > 0) op.step_inputs = world.step_inputs(example_step());
                     op.dresidual = in_place ? op.dy : world.output("dresidual", shape);
                     op.dx = world.output("dx", shape), op.dbias = world.master_output("dbias", {size.width});
                     if (norm) {
                       op.sum = world.input(shape), op.gamma = world.master({size.width});
                       op.mean = world.master({size.rows}, 0.1), op.rstd = world.master({size.rows}, 2);
                       op.dgamma = world.master_output("dgamma", {size.width});
                       op.dbeta = world.master_output("dbeta", {size.width});
                     }
                     if (in_place)
                       run_with_later(world, op, (norm ? 3 : 1) * size.width);
                     else
                       world.run(op);
                   }});
}
}  // namespace

void add_norm_cases(std::vector<OperationCase>& cases) {
  for (const Size& size : {Size{1, 2}, {7, 13}, {71, 229}, {515, 96}}) {
    layer_norm_cases(cases, size, false);
    layer_norm_cases(cases, size, true);
    block_end_cases(cases, size, true, 0, false);
    block_end_cases(cases, size, true, 0.1, true);
    block_end_cases(cases, size, false, 0.4, false);
    block_end_cases(cases, size, false, 0, true);
  }
  block_end_cases(cases, {131, 1093}, true, 0.1, false);
  block_end_cases(cases, {37, 1600}, true, 0.1, false);  // more columns than a GPU's block has fours of
  block_end_cases(cases, {1100, 768}, true, 0.1, true);  // blocks go round on a GPU
}

}  // namespace comera::test
