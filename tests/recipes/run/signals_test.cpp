#include "recipes/run/signals.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

namespace comera {
namespace {

TEST(StopSignals, TheFirstOneIsARequest) {
  testing::internal::CaptureStderr();
  {
    const StopSignals signals;
    EXPECT_FALSE(signals.requested());
    raise(SIGTERM);
    EXPECT_TRUE(signals.requested());
    EXPECT_EQ(signals.number(), SIGTERM);
    EXPECT_ANY_THROW(StopSignals());
  }
  EXPECT_NE(testing::internal::GetCapturedStderr().find("stopping after this step"), std::string::npos);
  const StopSignals again;
  EXPECT_FALSE(again.requested());
}

TEST(StopSignalsDeathTest, TheSecondOneEndsTheProcess) {
  EXPECT_EXIT(
      {
        const StopSignals signals;
        raise(SIGINT);
        raise(SIGINT);
        _exit(0);
      },
      testing::ExitedWithCode(130), "stopping after this step");
}

TEST(StopSignalsDeathTest, TheOldHandlersComeBack) {
  EXPECT_EXIT(
      {
        { const StopSignals signals; }
        raise(SIGTERM);
        _exit(0);
      },
      testing::KilledBySignal(SIGTERM), "");
}

}  // namespace
}  // namespace comera
