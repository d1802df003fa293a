#include "tests/training/trace.h"

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "kernels/backends/processors.h"
#include "kernels/reference/reference_backend.h"
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
     {5.0837630997888557, 3.9627746130593837, 3.9517637397851613, 3.4045863886945793, 3.6247394787948632,
      3.5859796749937707, 3.5870225942917182, 3.477396783290625, 3.5500493443377712, 3.5166810188033502}},
    {"dense",
     small_config(false),
     {.kind = OptimizerKind::adamw},
     {3.9422252114001912, 4.4051656048717041, 4.8571334065077485, 4.405345853010342, 4.2200731118197696,
      4.7340586053501443, 4.2764777258402473, 4.0966531694979498, 3.8997898795865171, 3.5711381620960747}},
    {"tensorized by muon",
     small_config(true),
     {.kind = OptimizerKind::muon},
     {5.0837630997888557, 3.8996811738950012, 3.7267913748457877, 3.6393214194297832, 3.5841120965471052,
      3.5844728318495616, 3.6002168284875342, 3.5283422256728993, 3.5148018178855107, 3.698512027559822}},
    {"dense by muon",
     small_config(false),
     {.kind = OptimizerKind::muon},
     {3.9422252114001912, 4.4605219606178226, 5.0095566781860938, 4.3148901569298763, 4.1930490070803561,
      4.297068127869248, 4.9139989005287532, 3.9392429806530589, 3.4342996143609223, 3.390510598879052}},
    {"low rank",
     low_rank_config(),
     {.kind = OptimizerKind::adamw},
     {4.6526138014966261, 4.2014119734008268, 4.3432514059894736, 4.3341376578090616, 4.3249465302325918,
      3.780039988684635, 4.9329033020290662, 3.9910918875761876, 3.6965746943620559, 3.7840300215456728}},
    {"low rank by muon",
     low_rank_config(),
     {.kind = OptimizerKind::muon},
     {4.6526138014966261, 4.1981617233807036, 4.2435887523741416, 4.3360257612270869, 4.3568784147490174,
      3.7748718926521456, 4.8778560632699648, 3.912173429368246, 3.5518764622663905, 3.8972089779693468}},
    {"adapters",
     lte_config(),
     {.kind = OptimizerKind::adamw},
     {3.8441404164250392, 4.4246943631121622, 4.8189602883420921, 4.3112936837248022, 4.1483229959456169,
      4.0064119253557875, 4.7826667053866085, 4.3050255847762742, 3.4454853653396298, 3.3787748813589475}},
    {"tensorized by lamb",
     small_config(true),
     {.kind = OptimizerKind::lamb},
     {5.0837630997888557, 4.1019914136684674, 3.8264776150905817, 3.5443354299810235, 3.7544779356854101,
      3.5957197630599578, 3.6691164680111794, 3.622587617639152, 3.4661222637032894, 3.4790915313116924}},
    {"dense by galore",
     small_config(false),
     {.kind = OptimizerKind::galore, .galore = GaloreOptions{.rank = 4, .update_proj_gap = 3}},
     {3.9422252114001912, 4.4494250602590322, 5.0608250848727074, 4.297197631816732, 4.1611179092590014,
      4.3491165970106458, 4.906230703736858, 4.2044975536142219, 3.6715889880513535, 3.4951464375001939}},
};

TEST(Trace, TenLossesOfDoubleAndFloat) {
  for (const Golden& expected : golden) {
    EncoderConfig config = expected.config;
    const std::vector<double> exact =
        trace(config, {reference_backend(), host_allocator()}, 10, expected.optimizer);
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
