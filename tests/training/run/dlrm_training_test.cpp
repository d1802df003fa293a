// A DLRM in the engine, on the CPU.
#include <gmock/gmock.h>

#include <cmath>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/reference/reference_backend.h"
#include "tests/support/clicks.h"
#include "tests/training/click_trace.h"

namespace comera::test {
namespace {

TEST(DlrmTraining, LearnsWithEachOptimizerAsDoubleDoes) {
  for (const bool tensorized : {true, false})
    for (const OptimizerKind kind : {OptimizerKind::adamw, OptimizerKind::muon, OptimizerKind::lamb}) {
      DlrmConfig config = small_dlrm(tensorized);
      const std::vector<double> exact =
          click_trace(config, {reference_backend(), host_allocator()}, 30, {.kind = kind});
      EXPECT_LT(exact.back(), 0.9 * exact.front());
      config.compute = DType::float32;
      const std::vector<double> got =
          click_trace(config, {cpu_backend(), host_allocator()}, 30, {.kind = kind});
      for (int i = 0; i < 10; ++i) EXPECT_NEAR(got[i], exact[i], 1e-4 * exact[i]) << "step " << i;
      EXPECT_NEAR(got.back(), exact.back(), 1e-2 * exact.back());
    }
}

TEST(DlrmTraining, NarrowActivationsLearnAsDoubleDoes) {
  for (const bool tensorized : {true, false}) {
    DlrmConfig config = small_dlrm(tensorized, BagPooling::mean);
    const std::vector<double> exact = click_trace(config, {reference_backend(), host_allocator()});
    config.compute = DType::bfloat16;
    const std::vector<double> got = click_trace(config, {cpu_backend(), host_allocator()});
    for (int i = 0; i < 10; ++i) EXPECT_NEAR(got[i], exact[i], 0.03 * exact[i]) << "step " << i;
    EXPECT_NE(got, exact) << "nothing was rounded";
  }
}

}  // namespace
}  // namespace comera::test
