#include <fmt/core.h>

#include "kernels/ops/products/matrix_product.h"
#include "kernels/ops/products/weight_gradients.h"
#include "kernels/ops/tensor_trains/tt_factors.h"
#include "kernels/ops/tensor_trains/tt_feed_forward.h"
#include "kernels/ops/tensor_trains/tt_inner.h"
#include "kernels/ops/tensor_trains/tt_linear.h"
#include "tests/operations/op_test_context.h"

namespace comera::test {

namespace {
struct Size {
  std::int64_t m, n, k;
};

void product_case(std::vector<OperationCase>& cases, Size size, bool transpose_a, bool transpose_b,
                  bool accumulate, std::int64_t ld, bool into_master = false) {
  const std::string name = fmt::format(
      "MatrixProduct_{}{}_{}_{}_{}{}{}{}", transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N', size.m, size.n,
      size.k, accumulate ? "_accumulate" : "", ld > 0 ? "_apart" : "", into_master ? "_master" : "");
  cases.push_back({name, 2e-6, [=](OpTestContext& world) {
                     MatrixProduct op;
                     op.m = size.m, op.n = size.n, op.k = size.k;
                     op.transpose_a = transpose_a, op.transpose_b = transpose_b, op.accumulate = accumulate;
                     op.lda = (transpose_a ? size.m : size.k) + ld;
                     op.ldb = (transpose_b ? size.k : size.n) + ld;
                     op.ldc = size.n + ld;
                     op.a = world.input({transpose_a ? size.k : size.m, op.lda});
                     op.b = world.input({transpose_b ? size.n : size.k, op.ldb});
                     const Shape result{size.m, op.ldc};
                     op.c = into_master ? world.master_output("c", result) : world.output("c", result);
                     world.run(op);
                   }});
}

void batch_case(std::vector<OperationCase>& cases, const std::string& name, Size size, std::int64_t batch,
                bool one_result) {
  cases.push_back({"MatrixProduct_batch_" + name, 2e-6, [=](OpTestContext& world) {
                     MatrixProduct op;
                     op.m = size.m, op.n = size.n, op.k = size.k, op.batch = batch;
                     op.accumulate = one_result;
                     op.a = world.input({batch, size.m, size.k});
                     op.b = world.input({batch, size.k, size.n});
                     op.c = world.output("c", {one_result ? 1 : batch, size.m, size.n});
                     op.stride_a = size.m * size.k, op.stride_b = size.k * size.n;
                     op.stride_c = one_result ? 0 : size.m * size.n;
                     world.run(op);
                   }});
}

void biased_case(std::vector<OperationCase>& cases, Size size, bool transpose_b, bool rounded,
                 bool into_master) {
  const std::string name =
      fmt::format("BiasedProduct_N{}_{}_{}_{}{}{}", transpose_b ? 'T' : 'N', size.m, size.n, size.k,
                  rounded ? "_rounded" : "", into_master ? "_master" : "");
  cases.push_back({name, 2e-6, [=](OpTestContext& world) {
                     MatrixProduct product;
                     product.m = size.m, product.n = size.n, product.k = size.k;
                     product.transpose_b = transpose_b;
                     product.lda = size.k + 8;
                     product.a = world.input({size.m, product.lda});
                     product.b = world.input(transpose_b ? Shape{size.n, size.k} : Shape{size.k, size.n});
                     const Shape result{size.m, size.n};
                     product.c = into_master ? world.master_output("c", result) : world.output("c", result);
                     std::vector<float> bias;
                     for (std::int64_t j = 0; j < size.n; ++j)
                       bias.push_back(static_cast<float>(j % 13) / 4 - 1);  // exact in every type
                     BiasedProduct op{.product = product, .bias = world.chosen_master({size.n}, bias)};
                     if (rounded) op.rounded = world.chosen("rounded", {size.n}, bias);
                     world.run(op);
                   }});
}

// Several at once, with the heads of a layer side by side in the columns, as batches of strides that are
// shorter than a row; the same again with the operands the other way round.
void products_case(std::vector<OperationCase>& cases, const std::string& name, Size size, std::int64_t heads,
                   bool accumulate, int times) {
  cases.push_back({"MatrixProducts_" + name, 2e-6, [=](OpTestContext& world) {
                     MatrixProducts op;
                     for (int i = 0; i < times; ++i) {
                       const bool turned = i % 2 != 0;
                       const std::int64_t width = heads * size.k, columns = heads * size.n;
                       MatrixProduct one;
                       one.m = size.m, one.n = size.n, one.k = size.k, one.batch = heads;
                       one.transpose_a = turned, one.transpose_b = !turned, one.accumulate = accumulate;
                       one.a = turned ? world.input({size.k, heads * size.m}) : world.input({size.m, width});
                       one.b = turned ? world.input({size.k, columns}) : world.input({size.n, width});
                       one.lda = turned ? heads * size.m : width, one.ldb = turned ? columns : width;
                       one.stride_a = turned ? size.m : size.k, one.stride_b = turned ? size.n : size.k;
                       one.c = world.master_output("c", {size.m, columns});
                       one.ldc = columns, one.stride_c = size.n;
                       op.products.push_back(one);
                     }
                     world.run(op);
                   }});
}

struct WeightCase {
  std::int64_t rows, inputs, outputs;
  bool bias = false;
  std::int64_t before = 0, behind = 0;  // further columns beside those of x
  std::int64_t gap = 0;                 // between rows of dy, without a bias, and of dw
};

struct PartsCase {
  std::int64_t parts, columns, apart, begin = 0;
};

void weight_gradients_case(std::vector<OperationCase>& cases, const std::string& name,
                           const std::vector<WeightCase>& gradients,
                           const std::vector<PartsCase>& sums = {}) {
  cases.push_back({"WeightGradients_" + name, 4e-6, [=](OpTestContext& world) {
                     WeightGradients op;
                     op.type = world.input({1}).dtype();
                     for (const PartsCase& c : sums)
                       op.sums.push_back({.parts = world.master({c.parts, c.apart}).from(c.begin),
                                          .count = c.parts,
                                          .apart = c.apart,
                                          .to = world.statistic("to", {c.columns})});
                     for (const WeightCase& c : gradients) {
                       WeightGradient one;
                       one.rows = c.rows, one.inputs = c.inputs, one.outputs = c.outputs;
                       one.ldx = c.before + c.inputs + c.behind;
                       one.x = world.input({c.rows, one.ldx}).from(c.before);
                       one.lddy = c.outputs + (c.bias ? 0 : c.gap);
                       one.dy = world.input({c.rows, one.lddy});
                       one.lddw = c.outputs + c.gap;
                       one.dw = world.statistic("dw", {c.inputs, one.lddw});
                       if (c.bias) one.dbias = world.statistic("dbias", {c.outputs});
                       op.gradients.push_back(one);
                     }
                     world.run(op);
                   }});
}

// Cores of these modes and ranks; the ranks between are one fewer than the modes.
TTCoreChain random_train(OpTestContext& world, const std::vector<std::int64_t>& modes, std::size_t inputs,
                         const std::vector<std::int64_t>& ranks) {
  TTCoreChain train{
      .order = static_cast<int>(modes.size()), .inputs = static_cast<int>(inputs), .core = {}, .gate = {}};
  for (std::size_t k = 0; k < modes.size(); ++k) {
    const std::int64_t before = k == 0 ? 1 : ranks[k - 1], after = k < ranks.size() ? ranks[k] : 1;
    train.core[k] = world.master({before, modes[k], after});
    if (k < ranks.size()) train.gate[k] = world.master({after});
  }
  return train;
}

struct FactorsCase {
  std::string name;
  std::vector<std::int64_t> modes;
  std::size_t inputs;
  std::vector<std::int64_t> ranks;
  std::int64_t beside = 0;  // further columns of A's memory
  int trains = 1;
  std::int64_t padding = 0;  // columns of A and rows of B behind the rank
  bool last_row = false;
};

void factors_cases(std::vector<OperationCase>& cases, const FactorsCase& c) {
  cases.push_back({"TTFactorsForward_" + c.name, 4e-6, [=](OpTestContext& world) {
                     TTFactorsForward op;
                     for (int i = 0; i < c.trains; ++i) {
                       const TTCoreChain train = random_train(world, c.modes, c.inputs, c.ranks);
                       const std::int64_t columns = c.ranks[c.inputs - 1] + c.padding,
                                          apart = columns + c.beside, rows = columns + (c.last_row ? 1 : 0);
                       op.factors.push_back({.train = train,
                                             .a = world.master_output("a", {train.input_size(), apart}),
                                             .a_apart = apart,
                                             .a_columns = columns,
                                             .b = world.master_output("b", {rows, train.output_size()})});
                       if (c.last_row) op.factors.back().last_row = world.master({train.output_size()});
                     }
                     world.run(op);
                   }});
  cases.push_back({"TTFactorsBackward_" + c.name, 1e-5, [=](OpTestContext& world) {
                     TTFactorsBackward op;
                     for (int i = 0; i < c.trains; ++i) {
                       const TTCoreChain train = random_train(world, c.modes, c.inputs, c.ranks);
                       const std::int64_t columns = c.ranks[c.inputs - 1] + c.padding,
                                          apart = columns + c.beside, rows = columns + (c.last_row ? 1 : 0);
                       TTFactorsBackward::Factors half{.train = train,
                                                       .da = world.master({train.input_size(), apart}),
                                                       .a_apart = apart,
                                                       .db = world.master({rows, train.output_size()}),
                                                       .dcore = {},
                                                       .dgate = {}};
                       if (c.last_row)
                         half.dlast_row = world.master_output("dlast_row", {train.output_size()});
                       for (int k = 0; k < train.order; ++k) {
                         half.dcore[k] = world.master_output("dcore", train.core[k].shape());
                         if (k + 1 < train.order)
                           half.dgate[k] = world.master_output("dgate", train.gate[k].shape());
                       }
                       op.factors.push_back(half);
                     }
                     world.run(op);
                   }});
}

// What an operation has left. World::run() runs it dry first: what that left is not run.
void run_later(OpTestContext& world, WeightGradients later) {
  const auto first = later.gradients.begin();
  later.gradients.erase(first, first + static_cast<std::ptrdiff_t>(later.gradients.size() / 2));
  if (!later.empty()) world.run(later);
}

struct LinearCase {
  std::int64_t tokens, inputs;
  std::vector<std::int64_t> ranks, widths;
  Activation activation = Activation::none;
  bool bias = true, accumulate_dx = false;
  std::int64_t other = 0;  // columns of a that no output uses
  bool diagonal = false;   // beside all but the first of several outputs
};

std::string name_of(const LinearCase& c) {
  return fmt::format("{}_{}_{}x{}_{}{}{}{}{}{}", c.tokens, c.inputs, c.ranks.size(), c.ranks[0], c.widths[0],
                     c.activation == Activation::none ? "" : std::string("_") + traits_of(c.activation).name,
                     c.bias ? "" : "_no_bias", c.accumulate_dx ? "_accumulate" : "",
                     c.other > 0 ? "_other" : "", c.diagonal ? "_diagonal" : "");
}

bool has_diagonal(const LinearCase& c, int output) {
  return c.diagonal && (output > 0 || c.ranks.size() == 1);
}

void linear_cases(std::vector<OperationCase>& cases, const LinearCase& c) {
  std::int64_t all = c.other;
  for (std::int64_t rank : c.ranks) all += rank;
  cases.push_back({"TTLinearForward_" + name_of(c), 4e-6, [=](OpTestContext& world) {
                     TTLinearForward op;
                     op.x = world.input({c.tokens, c.inputs});
                     op.a = world.input({c.inputs, all}, 0.2);
                     op.xa = world.output("xa", {c.tokens, all});
                     op.outputs = static_cast<int>(c.ranks.size());
                     std::int64_t column = 0;
                     for (int i = 0; i < op.outputs; ++i) {
                       auto& output = op.output[i];
                       output.column = column;
                       output.b = world.input({c.ranks[i], c.widths[i]});
                       if (c.bias) output.bias = world.master({c.widths[i]});
                       if (has_diagonal(c, i))
                         output.diagonal = world.master({std::max(c.inputs, c.widths[i])});
                       output.activation = c.activation;
                       output.u = world.output(fmt::format("u{}", i), {c.tokens, c.widths[i]});
                       if (c.activation != Activation::none) {
                         output.y = world.output(fmt::format("y{}", i), {c.tokens, c.widths[i]});
                       }
                       column += c.ranks[i];
                     }
                     world.run(op);
                   }});
  cases.push_back({"TTLinearBackward_" + name_of(c), 4e-6, [=](OpTestContext& world) {
                     TTLinearBackward op;
                     op.x = world.input({c.tokens, c.inputs});
                     op.a = world.input({c.inputs, all}, 0.2);
                     op.xa = world.input({c.tokens, all});
                     op.da = world.master_output("da", {c.inputs, all});
                     op.dx = world.output("dx", {c.tokens, c.inputs});
                     op.accumulate_dx = c.accumulate_dx;
                     if (c.other > 0) op.dxa = world.input({c.tokens, all});
                     op.outputs = static_cast<int>(c.ranks.size());
                     std::int64_t column = 0;
                     for (int i = 0; i < op.outputs; ++i) {
                       auto& output = op.output[i];
                       output.column = column;
                       output.b = world.input({c.ranks[i], c.widths[i]});
                       output.db = world.master_output(fmt::format("db{}", i), {c.ranks[i], c.widths[i]});
                       if (c.bias)
                         output.dbias = world.master_output(fmt::format("dbias{}", i), {c.widths[i]});
                       if (has_diagonal(c, i)) {
                         const Shape shape{std::max(c.inputs, c.widths[i])};
                         output.diagonal = world.master(shape);
                         output.ddiagonal = world.master_output(fmt::format("ddiagonal{}", i), shape);
                       }
                       output.activation = c.activation;
                       if (slope_by_argument(c.activation)) {
                         output.u = world.input({c.tokens, c.widths[i]}, 4);
                       }
                       if (slope_by_value(c.activation)) output.y = world.input({c.tokens, c.widths[i]});
                       output.dy = world.output(fmt::format("dy{}", i), {c.tokens, c.widths[i]});
                       column += c.ranks[i];
                     }
                     WeightGradients later{.type = op.x.dtype()};
                     if (op.dxa) op.later = &later;
                     world.run(op);
                     run_later(world, later);
                   }});
}

struct FeedForwardCase {
  std::int64_t tokens, inputs, rank_up, inner, rank_down, outputs;
  Activation activation = Activation::gelu;
  bool accumulate_dx = false;
  bool up = false, down = false;  // have diagonals
};

template <class Operation>
void set_common(const FeedForwardCase& c, OpTestContext& world, Operation& op) {
  op.x = world.input({c.tokens, c.inputs});
  op.a_up = world.input({c.inputs, c.rank_up}, 0.2);
  op.b_up = world.input({c.rank_up, c.inner});
  op.bias = world.master({c.inner});
  op.a_down = world.input({c.inner, c.rank_down}, 0.2);
  op.b_down = world.input({c.rank_down, c.outputs});
  op.activation = c.activation;
  if (c.up) op.diagonal_up = world.master({std::max(c.inputs, c.inner)}, 0.5);
  if (c.down) op.diagonal_down = world.master({std::max(c.inner, c.outputs)}, 0.5);
}

void feed_forward_cases(std::vector<OperationCase>& cases, const FeedForwardCase& c) {
  const std::string name =
      fmt::format("{}_{}_{}_{}_{}_{}_{}{}{}{}", c.tokens, c.inputs, c.rank_up, c.inner, c.rank_down,
                  c.outputs, static_cast<int>(c.activation), c.accumulate_dx ? "_accumulate" : "",
                  c.up ? "_up" : "", c.down ? "_down" : "");
  cases.push_back({"TTFeedForwardForward_" + name, 4e-6, [=](OpTestContext& world) {
                     TTFeedForwardForward op;
                     set_common(c, world, op);
                     op.xa = world.output("xa", {c.tokens, c.rank_up});
                     op.ha = world.output("ha", {c.tokens, c.rank_down});
                     op.y = world.output("y", {c.tokens, c.outputs});
                     world.run(op);
                   }});
  cases.push_back({"TTFeedForwardBackward_" + name, 4e-6, [=](OpTestContext& world) {
                     TTFeedForwardBackward op;
                     set_common(c, world, op);
                     op.xa = world.input({c.tokens, c.rank_up});
                     op.ha = world.input({c.tokens, c.rank_down});
                     op.dy = world.input({c.tokens, c.outputs});
                     op.da_up = world.master_output("da_up", op.a_up.shape());
                     op.db_up = world.master_output("db_up", op.b_up.shape());
                     op.dbias = world.master_output("dbias", op.bias.shape());
                     op.da_down = world.master_output("da_down", op.a_down.shape());
                     op.db_down = world.master_output("db_down", op.b_down.shape());
                     if (c.up) op.ddiagonal_up = world.master_output("ddiagonal_up", op.diagonal_up.shape());
                     if (c.down)
                       op.ddiagonal_down = world.master_output("ddiagonal_down", op.diagonal_down.shape());
                     op.dx = world.output("dx", op.x.shape());
                     op.accumulate_dx = c.accumulate_dx;
                     WeightGradients later{.type = op.x.dtype()};
                     if (c.accumulate_dx) op.later = &later, op.dxa = world.input(op.xa.shape());
                     world.run(op);
                     run_later(world, later);
                   }});
}

struct InnerCase {
  std::int64_t tokens, rank_up, inner, rank_down;
  Activation activation = Activation::gelu;
  bool forward_only = false;  // many tokens take the emulated kernels long
};

template <class Operation>
void set_common(const InnerCase& c, OpTestContext& world, Operation& op) {
  op.xa = world.input({c.tokens, c.rank_up});
  op.b_up = world.input({c.rank_up, c.inner});
  op.bias = world.master({c.inner});
  op.a_down = world.input({c.inner, c.rank_down});
  op.activation = c.activation;
}

void inner_cases(std::vector<OperationCase>& cases, const InnerCase& c) {
  const std::string name = fmt::format("{}_{}_{}_{}_{}", c.tokens, c.rank_up, c.inner, c.rank_down,
                                       static_cast<int>(c.activation));
  cases.push_back({"TTInnerForward_" + name, 4e-6, [=](OpTestContext& world) {
                     TTInnerForward op;
                     set_common(c, world, op);
                     op.ha = world.output("ha", {c.tokens, c.rank_down});
                     world.run(op);
                   }});
  if (c.forward_only) return;
  cases.push_back({"TTInnerBackward_" + name, 4e-6, [=](OpTestContext& world) {
                     TTInnerBackward op;
                     set_common(c, world, op);
                     op.dha = world.input({c.tokens, c.rank_down});
                     op.db_up = world.master_output("db_up", op.b_up.shape());
                     op.dbias = world.master_output("dbias", op.bias.shape());
                     op.da_down = world.master_output("da_down", op.a_down.shape());
                     op.dxa = world.output("dxa", op.xa.shape());
                     world.run(op);
                   }});
}
}  // namespace

void add_product_cases(std::vector<OperationCase>& cases) {
  for (const FactorsCase& c :
       {FactorsCase{"1x1", {3, 5}, 1, {4}}, FactorsCase{"1x2", {37, 4, 6}, 1, {8, 3}, 4},
        FactorsCase{"2x1", {4, 5, 41}, 2, {3, 7}, 1}, FactorsCase{"2x2", {8, 6, 5, 7}, 2, {8, 33, 5}, 3, 2},
        FactorsCase{"3x3", {12, 8, 8, 8, 8, 12}, 3, {12, 30, 30, 30, 12}, 60, 4},
        FactorsCase{"4x3", {2, 3, 4, 5, 3, 2, 7}, 4, {2, 6, 17, 19, 6, 3}, 0, 9},
        FactorsCase{"many", {2, 3, 2, 3}, 2, {2, 3, 2}, 1, 310, 1, true},
        FactorsCase{"1x1_padded", {3, 5}, 1, {4}, 0, 1, 4},
        FactorsCase{"1x1_long", {3, 290}, 1, {4}},  // more than a block copies
        FactorsCase{"1x1_last_row", {3, 5}, 1, {4}, 2, 2, 0, true},
        FactorsCase{"2x2_padded_last_row", {8, 6, 5, 7}, 2, {8, 30, 5}, 1, 2, 2, true}})
    factors_cases(cases, c);
  const Size sizes[] = {{1, 1, 1}, {7, 5, 3}, {71, 229, 37}, {30, 253, 515}, {1031, 30, 97}};
  for (const Size& size : sizes) {
    for (int flags = 0; flags < 4; ++flags) {
      product_case(cases, size, (flags & 1) != 0, (flags & 2) != 0, flags % 3 != 0, flags == 2 ? 3 : 0);
    }
  }
  product_case(cases, {601, 530, 64}, false, false, true, 5);
  product_case(cases, {512, 161, 96}, true, false, false, 0);  // elements of a column are 2 KiB apart
  product_case(cases, {512, 161, 96}, true, false, true, 512);
  product_case(cases, {120, 48, 3001}, false, true, false, 0);  // little of it beside a long k
  product_case(cases, {48, 40, 48}, false, false, false, 0);    // half blocks
  product_case(cases, {3, 4, 0}, false, false, false, 0);
  product_case(cases, {3, 4, 0}, false, false, false, 1, true);
  for (int flags = 0; flags < 4; ++flags)
    product_case(cases, {71, 229, 37}, (flags & 1) != 0, (flags & 2) != 0, flags % 3 != 0, flags == 1 ? 5 : 0,
                 true);
  product_case(cases, {530, 270, 130}, true, false, true, 0, true);
  for (const Size& size : {Size{1, 1, 1}, {71, 229, 37}, {130, 56, 16}, {3, 4, 0}}) {
    biased_case(cases, size, false, true, false);
    biased_case(cases, size, true, false, false);
  }
  biased_case(cases, {71, 229, 37}, true, true, true);
  batch_case(cases, "tiny", {3, 5, 7}, 41, false);
  batch_case(cases, "middle", {33, 17, 65}, 13, false);
  batch_case(cases, "large", {130, 120, 65}, 3, false);
  batch_case(cases, "one_result", {33, 17, 65}, 13, true);
  products_case(cases, "heads", {31, 30, 64}, 3, false, 2);
  products_case(cases, "one_row", {1, 30, 64}, 12, true, 3);
  products_case(cases, "long_sums", {17, 33, 515}, 2, false, 2);
  products_case(cases, "long_sums_and_one", {17, 33, 257}, 1, true, 2);  // 256 are read at once
  products_case(cases, "many", {3, 4, 5}, 2, true, 245);
  products_case(cases, "nothing_summed", {5, 6, 0}, 2, false, 2);
  weight_gradients_case(cases, "one", {{37, 8, 16, true}});
  weight_gradients_case(cases, "layer",
                        {{601, 32, 136, true, 32, 64},
                         {601, 136, 96, false, 0, 0, 8},
                         {257, 72, 32, false},
                         {64, 64, 64, true, 0, 0, 4}});
  weight_gradients_case(cases, "many", std::vector<WeightCase>(17, {265, 8, 8, true}));
  weight_gradients_case(cases, "odd", {{71, 5, 7, true, 1, 1, 1}, {3, 1, 1}});
  weight_gradients_case(cases, "other_rows", {{70, 16, 24, true, 4, 4}});
  weight_gradients_case(cases, "no_rows", {{0, 8, 16}, {5, 8, 8, true}});
  weight_gradients_case(cases, "sums", {{300, 16, 24, true}},
                        {{264, 132, 396, 132}, {1, 8, 8}, {9, 4, 12, 8}});
  weight_gradients_case(cases, "sums_alone", {}, {{3, 5, 7, 1}});

  linear_cases(cases, {1, 1, {1}, {1}});
  for (const Activation activation : all_activations) {
    linear_cases(cases, {5, 7, {3}, {11}, activation});
    feed_forward_cases(cases, {7, 5, 3, 11, 2, 13, activation, true});
    inner_cases(cases, {33, 70, 40, 9, activation});
    // Rounded operands give the other side of ReLU's kink, whose slope is another.
    if (activation != Activation::relu) inner_cases(cases, {65, 16, 136, 24, activation});
  }
  linear_cases(cases, {13, 31, {5}, {17}, Activation::tanh, false, true});
  linear_cases(cases, {71, 29, {8}, {37}, Activation::relu, true, true});
  linear_cases(cases, {131, 67, {13, 1, 30}, {71, 5, 300}, Activation::none, true, true});
  linear_cases(cases, {393, 64, {5, 30, 17}, {64, 64, 64}, Activation::none, true, false});
  linear_cases(cases, {131, 40, {48, 1, 7}, {40, 40, 40}, Activation::none, true, true});
  linear_cases(cases, {523, 96, {30}, {531}, Activation::gelu, true, false});
  linear_cases(cases, {1037, 64, {30, 30, 30}, {64, 64, 64}, Activation::none, true, false});
  linear_cases(cases, {257, 300, {270}, {48}, Activation::gelu, false, true});
  linear_cases(cases, {203, 65, {9}, {37}, Activation::none, true, true, 14});
  // With diagonals; the first has sizes that kernels leave to the decomposition.
  linear_cases(cases, {13, 12, {5}, {36}, Activation::gelu, true, true, 0, true});
  linear_cases(cases, {203, 64, {9, 30, 16}, {64, 64, 64}, Activation::none, true, true, 0, true});
  linear_cases(cases, {131, 32, {9}, {128}, Activation::gelu, true, false, 0, true});
  linear_cases(cases, {389, 128, {30, 8}, {64, 32}, Activation::none, false, true, 7, true});
  linear_cases(cases, {1, 32, {5}, {32}, Activation::relu, true, false, 0, true});
  feed_forward_cases(cases, {1, 1, 1, 1, 1, 1});
  feed_forward_cases(cases, {131, 37, 30, 531, 17, 67, Activation::gelu, true});
  feed_forward_cases(cases, {129, 20, 6, 40, 5, 24});  // in pieces of other sizes for any number of threads
  feed_forward_cases(cases, {269, 64, 13, 300, 33, 96, Activation::none});
  feed_forward_cases(cases, {2309, 48, 30, 512, 30, 48});
  feed_forward_cases(cases, {131, 40, 32, 536, 24, 72, Activation::gelu, true});
  feed_forward_cases(cases, {7, 4, 3, 12, 2, 6, Activation::gelu, true, true, true});
  feed_forward_cases(cases, {203, 64, 13, 640, 33, 64, Activation::gelu, true, true, true});
  feed_forward_cases(cases, {389, 32, 40, 96, 16, 96, Activation::gelu, false, true, false});
  feed_forward_cases(cases, {131, 96, 8, 192, 16, 32, Activation::silu, false, false, true});
  feed_forward_cases(cases, {1, 64, 8, 64, 16, 64, Activation::gelu, false, true, true});
  inner_cases(cases, {1, 8, 8, 8});
  inner_cases(cases, {65, 24, 504, 32});
  inner_cases(cases, {77, 16, 2056, 64});
  inner_cases(cases, {259, 48, 264, 40});
  inner_cases(cases, {700, 32, 136, 8});
  inner_cases(cases, {65, 104, 136, 72});
  inner_cases(cases, {33, 112, 72, 112});
  inner_cases(cases, {37, 40, 200, 128});
  inner_cases(cases, {130, 32, 208, 32});  // the inner sizes of the others are odd multiples of 8
  inner_cases(cases, {8450, 8, 776, 8, Activation::gelu, true});  // a block's places are used again
  linear_cases(cases, {2049, 32, {16}, {2080}, Activation::gelu, true, false});
}

}  // namespace comera::test
