#include <algorithm>
#include <cmath>

#include "data/batch.h"
#include "kernels/backends/backends.h"
#include "kernels/cpu/plain/plain_backend.h"
#include "recipes/run/step_engine.h"
#include "tests/model/configs.h"

#include <gtest/gtest.h>

namespace comera::test {
namespace {

// Batches that depend on nothing but these lines.
data::Batch trace_batch(std::int64_t right_rows, int step) {
  data::Batch batch({.tokens = 48, .sequences = 8, .sequence_length = 16, .masked = 24, .unique_ids = 29});
  std::uint32_t state = 12345 + 77 * step;
  const auto next = [&state] { return (state = state * 1664525u + 1013904223u) >> 16; };
  for (int length : {16, 5, 1, 11}) {
    std::vector<std::int32_t> ids, positions, targets;
    for (int i = 0; i < length; ++i) {
      ids.push_back(static_cast<std::int32_t>(next() % 29));
      if (i % 4 == 1 || length == 1) {
        positions.push_back(i);
        targets.push_back(static_cast<std::int32_t>((ids.back() * 7 + 3) % 29));  // something to learn
      }
    }
    batch.add_sequence(ids.data(), nullptr, length, positions, targets);
  }
  data::finish_batch(batch, right_rows);
  return batch;
}

std::vector<double> trace(EncoderConfig config, const Backend& backend) {
  config.dropout = config.attention_dropout = 0.1;
  StepEngine engine(config, {.weight_decay = 0.01}, backend, host_allocator());
  engine.model().parameters().initialize(2);
  engine.set_capacity({.tokens = 48, .sequences = 8, .longest = 16, .masked = 24, .unique_ids = 29});
  std::vector<double> losses;
  for (int step = 0; step < 10; ++step) {
    engine.clear_results();
    double targets = 0;
    for (int pack = 0; pack < 2; ++pack) {
      const data::Batch batch = trace_batch(engine.model().token_embedding().right_rows(), 2 * step + pack);
      engine.load(batch);
      engine.micro(
          {.seed = 9, .step = static_cast<std::uint32_t>(step), .pack = static_cast<std::uint32_t>(pack)});
      targets += batch.masked;
    }
    const double rates[parameter_roles] = {2e-2, 1e-2, 1e-2};
    engine.apply(step, targets, rates, 1.0);
    losses.push_back(engine.results().loss_sum / engine.results().target_count);
  }
  return losses;
}

struct Golden {
  const char* name;
  bool tensorized;
  std::vector<double> losses;
};

// Made by this test in double; both types and every instruction set must keep to them.
const Golden golden[] = {
    {"tensorized",
     true,
     {5.28336968297967, 3.80462845175085, 3.79212946611204, 3.40462053265929, 3.66804759066019,
      3.64884412790297, 3.56923476143361, 3.49635240478314, 3.55427083439813, 3.42625672819668}},
    {"dense",
     false,
     {3.84414041642504, 4.33835727986986, 4.74793782340594, 4.49398935581412, 4.52900932973872,
      4.62780298733303, 4.53284177743829, 4.06243455813851, 4.33726882414147, 3.37697772424722}},
};

TEST(Trace, TenLossesOfDoubleAndFloat) {
  for (const Golden& expected : golden) {
    EncoderConfig config = small_config(expected.tensorized);
    const std::vector<double> exact = trace(config, plain_backend());
    config.compute = DType::float32;
    const std::vector<double> quick = trace(config, backend_of(DeviceKind::cpu));
    ASSERT_EQ(expected.losses.size(), 10u);
    for (int i = 0; i < 10; ++i) {
      EXPECT_NEAR(exact[i], expected.losses[i], 1e-12 * expected.losses[i]) << expected.name << " step " << i;
      EXPECT_NEAR(quick[i], expected.losses[i], 1e-5 * expected.losses[i]) << expected.name << " step " << i;
    }
    EXPECT_LT(exact[9], exact[0]);
  }
}

}  // namespace
}  // namespace comera::test
