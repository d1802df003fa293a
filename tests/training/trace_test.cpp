#include "tests/training/trace.h"

#include <gtest/gtest.h>

#include "kernels/backends/processors.h"
#include "kernels/cpu/plain/plain_backend.h"
#include "tests/model/configs.h"

namespace comera::test {
namespace {

struct Golden {
  const char* name;
  bool tensorized;
  OptimizerKind optimizer;
  std::vector<double> losses;
};

// Made by this test in double; both types and every instruction set must keep to them.
const Golden golden[] = {
    {"tensorized",
     true,
     OptimizerKind::adamw,
     {5.28336968297967, 3.80462845175085, 3.79212946611204, 3.40462053265929, 3.66804759066019,
      3.64884412790297, 3.56923476143361, 3.49635240478314, 3.55427083439813, 3.42625672819668}},
    {"dense",
     false,
     OptimizerKind::adamw,
     {3.84414041642504, 4.33835727986986, 4.74793782340594, 4.49398935581412, 4.52900932973872,
      4.62780298733303, 4.53284177743829, 4.06243455813851, 4.33726882414147, 3.37697772424722}},
    {"tensorized by muon",
     true,
     OptimizerKind::muon,
     {5.283369682979675, 3.9324374377815747, 3.7864653452081245, 3.5635233925679435, 3.638206113829288,
      3.5717148357804027, 3.482337180188249, 3.3901484997915636, 3.4597099076315789, 3.54553514848687}},
    {"dense by muon",
     false,
     OptimizerKind::muon,
     {3.8441404164250392, 4.3874175841646466, 4.9092941104741978, 4.450686461643766, 4.3293363527079727,
      3.9155584248749609, 4.8695606472302551, 4.1839165127144682, 3.5941155022740237, 3.3646213777201481}},
};

TEST(Trace, TenLossesOfDoubleAndFloat) {
  for (const Golden& expected : golden) {
    EncoderConfig config = small_config(expected.tensorized);
    const std::vector<double> exact =
        trace(config, {plain_backend(), host_allocator()}, 10, expected.optimizer);
    config.compute = DType::float32;
    const std::vector<double> quick = trace(config, cpu_processor(), 10, expected.optimizer);
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
