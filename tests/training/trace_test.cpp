#include "tests/training/trace.h"

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "kernels/backends/processors.h"
#include "kernels/cpu/plain/plain_backend.h"
#include "tests/model/configs.h"

namespace comera::test {
namespace {

struct Golden {
  const char* name;
  EncoderConfig config;
  OptimizerOptions optimizer;
  std::vector<double> losses;
};

// Made by this test in double; both types and every instruction set must keep to them.
const Golden golden[] = {
    {"tensorized",
     small_config(true),
     {.kind = OptimizerKind::adamw},
     {5.28336968297967, 3.80462845175085, 3.79212946611204, 3.40462053265929, 3.66804759066019,
      3.64884412790297, 3.56923476143361, 3.49635240478314, 3.55427083439813, 3.42625672819668}},
    {"dense",
     small_config(false),
     {.kind = OptimizerKind::adamw},
     {3.84414041642504, 4.33835727986986, 4.74793782340594, 4.49398935581412, 4.52900932973872,
      4.62780298733303, 4.53284177743829, 4.06243455813851, 4.33726882414147, 3.37697772424722}},
    {"tensorized by muon",
     small_config(true),
     {.kind = OptimizerKind::muon},
     {5.283369682979675, 3.9451879248722697, 3.768818554647047, 3.5472759850944691, 3.634308726645703,
      3.5758159538663299, 3.4792067986688955, 3.3985103483926622, 3.4589159882758933, 3.5764143106190045}},
    {"dense by muon",
     small_config(false),
     {.kind = OptimizerKind::muon},
     {3.8441404164250392, 4.3953290330384887, 4.8876906826589135, 4.4483044868898709, 4.324880371285114,
      3.8962958869234288, 4.8872566352902371, 4.162023195012468, 3.5723177248788809, 3.3567374403193431}},
    {"low rank",
     low_rank_config(),
     {.kind = OptimizerKind::adamw},
     {4.7002508015267201, 4.2516870748490003, 4.3363943238995377, 4.3667327882220954, 4.3560228794076794,
      3.7395600770519031, 4.9530829486482277, 4.0511702361111048, 3.7180732723945513, 3.7605084512375506}},
    {"low rank by muon",
     low_rank_config(),
     {.kind = OptimizerKind::muon},
     {4.7002508015267201, 4.2748912809610582, 4.1945331529394689, 4.385890104810743, 4.3473145370301163,
      3.7436207349683497, 4.9043967240065713, 3.9316536487982052, 3.524268906729553, 3.7477950277407337}},
    {"adapters",
     lte_config(),
     {.kind = OptimizerKind::adamw},
     {3.8441404164250392, 4.4246943631121622, 4.8189602883420921, 4.3112936837248022, 4.1483229959456169,
      4.0064119253557875, 4.7826667053866085, 4.3050255847762742, 3.4454853653396298, 3.3787748813589475}},
    {"tensorized by lamb",
     small_config(true),
     {.kind = OptimizerKind::lamb},
     {5.283369682979675, 4.1157977250579814, 3.9977081193722475, 3.4959942692072561, 3.7334562444385733,
      3.6881746227602941, 3.5983649698327804, 3.5677008566173694, 3.4099946431121442, 3.464037977706222}},
    {"dense by galore",
     small_config(false),
     {.kind = OptimizerKind::galore, .galore = GaloreOptions{.rank = 4, .update_proj_gap = 3}},
     {3.8441404164250392, 4.383029906437411, 4.9732535223679672, 4.4471715691133351, 4.3522092857521173,
      4.0303719001183707, 4.798680359840044, 4.2309889880500862, 3.6576559436790088, 3.4805705732583068}},
};

TEST(Trace, TenLossesOfDoubleAndFloat) {
  for (const Golden& expected : golden) {
    EncoderConfig config = expected.config;
    const std::vector<double> exact =
        trace(config, {plain_backend(), host_allocator()}, 10, expected.optimizer);
    const std::vector<double> exact_on_cpu = trace(config, cpu_processor(), 10, expected.optimizer);
    EXPECT_EQ(exact_on_cpu, exact) << "the CPU computes in double as the plain backend does";
    config.compute = DType::float32;
    const std::vector<double> quick = trace(config, cpu_processor(), 10, expected.optimizer);
    if (expected.losses.size() != 10) {
      ADD_FAILURE() << fmt::format("{}: {:.17g}", expected.name, fmt::join(exact, ", "));
      continue;
    }
    for (int i = 0; i < 10; ++i) {
      EXPECT_NEAR(exact[i], expected.losses[i], 1e-12 * expected.losses[i]) << expected.name << " step " << i;
      EXPECT_NEAR(quick[i], expected.losses[i], 1e-5 * expected.losses[i]) << expected.name << " step " << i;
    }
    EXPECT_LT(exact[9], exact[0]);
  }
}

}  // namespace
}  // namespace comera::test
