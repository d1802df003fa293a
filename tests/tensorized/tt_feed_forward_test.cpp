#include "tensorized/tt_feed_forward.h"

#include <gtest/gtest.h>

#include "kernels/cpu/plain/plain_backend.h"
#include "tests/support/harness.h"
#include "tests/tensorized/dense_oracle.h"

namespace comera::test {
namespace {

// One pass over both layers gives what one layer after the other gives.
TEST(TTFeedForward, IsOneLayerAfterTheOther) {
  constexpr std::int64_t tokens = 9, hidden = 12, inner = 24;
  ParameterStore store;
  const auto up =
      make_linear(store, {.name = "up", .outputs = {""}, .input_size = hidden, .output_size = inner},
                  {TTShape{{3, 4}, {4, 6}, {3, 5, 4}}}, PlanKind::halves);
  const auto down =
      make_linear(store, {.name = "down", .outputs = {""}, .input_size = inner, .output_size = hidden},
                  {TTShape{{4, 6}, {4, 3}, {4, 2, 3}}}, PlanKind::halves);
  store.allocate(host_allocator(), DType::float64, true);
  store.initialize(7);
  disturb_gates(store);
  for (ParameterId id = 0; id < store.size(); ++id)
    if (store.info(id).role == ParameterRole::core)
      write_tensor(store.value(id), normal_values(store.value(id).elements(), 100 + id));
  const TTFeedForward in_one_pass(store, *up->as_tensor_train(), *down->as_tensor_train());
  EXPECT_TRUE(in_one_pass.pays(tokens));

  Harness harness(plain_backend());
  const Context& context = harness.context();
  const Tensor x = harness.random({tokens, hidden}, DType::float64);
  const Tensor dy = harness.random({tokens, hidden}, DType::float64);
  const Tensor dx = harness.random({tokens, hidden}, DType::float64);
  const std::vector<double> dx_before = read_tensor(dx), dy_before = read_tensor(dy);
  const auto saved = in_one_pass.forward(context, x, Activation::gelu);
  in_one_pass.backward(context, saved, Activation::gelu, dy, dx, true);
  const std::vector<double> y = read_tensor(saved.y), dx_got = read_tensor(dx);
  const std::vector<double> gradients = read_tensor(store.gradients());
  EXPECT_EQ(read_tensor(dy), dy_before);

  write_tensor(dx, dx_before);
  write_tensor(store.gradients(), std::vector<double>(gradients.size(), 0));
  const auto first = up->forward(context, x, Activation::gelu, true);
  const auto second = down->forward(context, first.output(), Activation::none, false);
  const Tensor dinner = harness.tensor({tokens, inner}, DType::float64);
  down->backward(context, second, {dy}, dinner, false);
  up->backward(context, first, {dinner}, dx, true);
  EXPECT_LT(relative_error(y, read_tensor(second.output())), 1e-13);
  EXPECT_LT(relative_error(dx_got, read_tensor(dx)), 1e-13);
  EXPECT_LT(relative_error(gradients, read_tensor(store.gradients())), 1e-13);
}

}  // namespace
}  // namespace comera::test
