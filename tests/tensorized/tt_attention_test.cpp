#include "tensorized/fused/tt_attention.h"

#include <gmock/gmock.h>

#include <cmath>

#include "kernels/ops/attention/attention.h"
#include "kernels/reference/reference_backend.h"
#include "tests/support/harness.h"
#include "tests/tensorized/dense_oracle.h"

namespace comera::test {
namespace {

using testing::HasSubstr;

constexpr std::int64_t tokens = 23, hidden = 12, heads = 3, longest = 11;

struct Layers {
  ParameterStore store;
  std::unique_ptr<Linear> projections, output;

  // shapes: of query, key, value and output.
  Layers(const std::vector<TTShape>& shapes, DType dtype) {
    projections = make_linear(
        store,
        {.name = "a", .outputs = {"query", "key", "value"}, .input_size = hidden, .output_size = hidden},
        {shapes[0], shapes[1], shapes[2]}, PlanKind::factors);
    output = make_linear(store, {.name = "o", .outputs = {""}, .input_size = hidden, .output_size = hidden},
                         {shapes[3]}, PlanKind::factors);
    store.allocate(host_allocator(), dtype, true);
    store.initialize(3);
    if (dtype == DType::float64) disturb_gates(store);
    for (ParameterId id = 0; id < store.size(); ++id)
      if (store.info(id).role == ParameterRole::core)
        write_tensor(store.value(id), normal_values(store.value(id).elements(), 50 + id));
  }
  TTAttention between_factors() const {
    return {store, *projections->as_tensor_train(), *output->as_tensor_train(), heads};
  }
};

struct Result {
  std::vector<double> y, dx, gradients;
};

// Slopes: of a head that looks back only among others.
TTAttention::Inputs inputs_of(Harness& harness, DType dtype, bool sloped) {
  harness.inputs().dropout = {.seed = 5, .step = 3, .micro_batch = 1};
  const Tensor slopes = harness.tensor({heads, 2}, dtype, {0.5, 1e4, 0.25, 0.125, 0, 2});
  return {.sequence_offsets = harness.integers({0, 5, 16, 16, 20}),
          .longest = longest,
          .dropout = {.probability = 0.25, .site = 9},
          .step_inputs = harness.step_inputs(),
          .slopes = sloped ? slopes : Tensor()};
}

Result between_factors(Harness& harness, Layers& layers, bool sloped, const Tensor& x, const Tensor& dy,
                       const Tensor& dx) {
  const TTAttention attention = layers.between_factors();
  const TTAttention::Inputs inputs = inputs_of(harness, x.dtype(), sloped);
  const Context& context = harness.context();
  TTAttention::Merged merged;
  const Merging merging =
      merge_together(context, x.dtype(), [&](Merging& m) { merged = attention.merge(m); });
  const auto saved = attention.forward(context, inputs, merged, x);
  ArenaScope scope(context.arena);
  MergedGradients gradients(context, scope, merging, 0);
  attention.backward(context, inputs, saved, dy, dx, true, gradients);
  gradients.flush();
  return {read_tensor(saved.y), read_tensor(dx), read_tensor(layers.store.gradients())};
}

// Q, K and V formed, as their definition says.
Result formed(Harness& harness, Layers& layers, bool sloped, const Tensor& x, const Tensor& dy,
              const Tensor& dx) {
  const Context& context = harness.context();
  const TTAttention::Inputs inputs = inputs_of(harness, x.dtype(), sloped);
  const DType dtype = x.dtype();
  const auto projections = layers.projections->forward(context, x, {});
  AttentionForward forward{.q = projections.u[0],
                           .k = projections.u[1],
                           .v = projections.u[2],
                           .sequence_offsets = inputs.sequence_offsets,
                           .heads = heads,
                           .longest = longest,
                           .scale = 1 / std::sqrt(static_cast<double>(hidden) / heads),
                           .dropout = inputs.dropout,
                           .step_inputs = inputs.step_inputs,
                           .out = harness.tensor({tokens, hidden}, dtype),
                           .log_sum_exp = harness.tensor({heads, tokens}, dtype),
                           .slopes = inputs.slopes};
  run(context, forward);
  const auto output = layers.output->forward(context, forward.out, {.biased = false});
  const Tensor dout = harness.tensor({tokens, hidden}, dtype);
  layers.output->backward(context, output, {dy}, dout, false);
  AttentionBackward backward{.q = forward.q,
                             .k = forward.k,
                             .v = forward.v,
                             .out = forward.out,
                             .log_sum_exp = forward.log_sum_exp,
                             .sequence_offsets = forward.sequence_offsets,
                             .heads = heads,
                             .longest = longest,
                             .scale = forward.scale,
                             .dropout = forward.dropout,
                             .step_inputs = forward.step_inputs,
                             .dout = dout,
                             .dq = harness.tensor({tokens, hidden}, dtype),
                             .dk = harness.tensor({tokens, hidden}, dtype),
                             .dv = harness.tensor({tokens, hidden}, dtype),
                             .slopes = inputs.slopes};
  run(context, backward);
  layers.projections->backward(context, projections, {backward.dq, backward.dk, backward.dv}, dx, true);
  return {read_tensor(output.u[0]), read_tensor(dx), read_tensor(layers.store.gradients())};
}

struct Case {
  const char* name;
  std::vector<TTShape> shapes;  // of query, key, value and output
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class BetweenFactors : public testing::TestWithParam<Case> {};

Result run_way(decltype(&formed) way, const Backend& backend, const std::vector<TTShape>& shapes, DType dtype,
               bool sloped) {
  Harness harness(backend);
  Layers layers(shapes, dtype);
  const Tensor x = harness.random({tokens, hidden}, dtype), dy = harness.random({tokens, hidden}, dtype);
  const Tensor dx = harness.random({tokens, hidden}, dtype);
  return way(harness, layers, sloped, x, dy, dx);
}

TEST_P(BetweenFactors, IsAttentionWithQKVFormed) {
  for (const bool sloped : {false, true}) {
    const Result expected = run_way(formed, reference_backend(), GetParam().shapes, DType::float64, sloped);
    const Result exact =
        run_way(between_factors, reference_backend(), GetParam().shapes, DType::float64, sloped);
    EXPECT_LT(relative_error(exact.y, expected.y), 1e-13);
    EXPECT_LT(relative_error(exact.dx, expected.dx), 1e-13);
    EXPECT_LT(relative_error(exact.gradients, expected.gradients), 1e-13);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, BetweenFactors,
                         testing::Values(Case{"rank_2", std::vector<TTShape>(4, {{3, 4}, {4, 3}, {3, 2, 3}})},
                                         Case{"rank_1", std::vector<TTShape>(4, {{12}, {12}, {1}})},
                                         Case{"rank_5", std::vector<TTShape>(4, {{3, 4}, {4, 3}, {3, 5, 3}})},
                                         Case{"unequal_ranks",
                                              {{{3, 4}, {4, 3}, {3, 2, 3}},
                                               {{3, 4}, {4, 3}, {2, 5, 1}},
                                               {{3, 4}, {4, 3}, {1, 1, 2}},
                                               {{3, 4}, {4, 3}, {3, 4, 3}}}}),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(TTAttention, PaysWhereRanksAreSmallerThanHeads) {
  for (const auto& [rank, pays] : {std::pair{30, true}, {64, true}, {96, false}}) {
    ParameterStore store;
    const TTShape shape{{12, 8, 8}, {8, 8, 12}, {12, 30, rank, 30, 12}};
    const auto projections =
        make_linear(store, {.name = "a", .outputs = {"q", "k", "v"}, .input_size = 768, .output_size = 768},
                    {shape, shape, shape}, PlanKind::automatic);
    const auto output =
        make_linear(store, {.name = "o", .outputs = {""}, .input_size = 768, .output_size = 768}, {shape},
                    PlanKind::automatic);
    const TTAttention attention(store, *projections->as_tensor_train(), *output->as_tensor_train(), 12);
    EXPECT_EQ(attention.why_not(reference_backend().machine(), 4096, 128, 4096, true).has_value(), !pays)
        << rank;
    MachineModel machine = reference_backend().machine();
    machine.head_sizes = {8, 16, 24};
    EXPECT_THAT(attention.why_not(machine, 4096, 128, 4096, true).value_or(""),
                HasSubstr("heads of up to 24"))
        << rank;
  }
}

}  // namespace
}  // namespace comera::test
