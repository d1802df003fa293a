#include "training/run/signals.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <functional>

namespace comera {
namespace {

// A signal to the process, as from a terminal or `kill`; not to this thread.
void send(int number) { kill(getpid(), number); }

bool comes_true(const std::function<bool()>& condition) {
  for (int i = 0; i < 1000 && !condition(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return condition();
}

bool is_pending(int number) {
  sigset_t pending;
  sigpending(&pending);
  return sigismember(&pending, number) == 1;
}

bool is_blocked(int number) {
  sigset_t blocked;
  pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  return sigismember(&blocked, number) == 1;
}

TEST(StopSignals, TheFirstOneIsARequest) {
  testing::internal::CaptureStderr();
  {
    StopSignals signals;
    signals.begin();
    EXPECT_FALSE(signals.requested());
    send(SIGTERM);
    EXPECT_TRUE(comes_true([&] { return signals.requested(); }));
    EXPECT_EQ(signals.number(), SIGTERM);
    EXPECT_ANY_THROW(StopSignals());
  }
  EXPECT_NE(testing::internal::GetCapturedStderr().find("stopping after this step"), std::string::npos);
  const StopSignals again;
  EXPECT_FALSE(again.requested());
}

// A handler that ran in a thread within one of oneDNN's kernels would destroy the heap.
TEST(StopSignals, AreBlockedInAllThreadsThatCompute) {
  {
    const StopSignals signals;
    for (const int number : {SIGINT, SIGTERM}) {
      EXPECT_TRUE(is_blocked(number));
      bool blocked = false;
      std::thread([&] { blocked = is_blocked(number); }).join();
      EXPECT_TRUE(blocked);
    }
  }
  EXPECT_FALSE(is_blocked(SIGINT));
  EXPECT_FALSE(is_blocked(SIGTERM));
}

TEST(StopSignals, AClosedTerminalIsARequestHoweverOftenItComes) {
  std::signal(SIGHUP, SIG_DFL);
  testing::internal::CaptureStderr();
  {
    StopSignals signals;
    signals.begin();
    for (int i = 0; i < 3; ++i) {
      send(SIGHUP);
      EXPECT_TRUE(comes_true([&] { return !is_pending(SIGHUP) && signals.requested(); }));
    }
    EXPECT_EQ(signals.number(), SIGHUP);
  }
  testing::internal::GetCapturedStderr();
}

// A service manager that ends a session sends both, and whichever is taken first, they are one request.
TEST(StopSignals, AClosedTerminalAndATerminationAreOneRequest) {
  std::signal(SIGHUP, SIG_DFL);
  for (const auto& both : {std::pair{SIGHUP, SIGTERM}, {SIGTERM, SIGHUP}, {SIGHUP, SIGINT}}) {
    testing::internal::CaptureStderr();
    {
      StopSignals signals;
      signals.begin();
      send(both.first);
      send(both.second);
      EXPECT_TRUE(comes_true(
          [&] { return !is_pending(both.first) && !is_pending(both.second) && signals.requested(); }));
      EXPECT_TRUE(comes_true([&] { return signals.number() != SIGHUP; }));
    }
    testing::internal::GetCapturedStderr();
  }
}

TEST(StopSignals, UnderNohupTheTerminalMayClose) {
  std::signal(SIGHUP, SIG_IGN);
  testing::internal::CaptureStderr();
  {
    StopSignals signals;
    signals.begin();
    send(SIGHUP);
    send(SIGTERM);
    EXPECT_TRUE(comes_true([&] { return signals.requested(); }));
    EXPECT_EQ(signals.number(), SIGTERM);
  }
  testing::internal::GetCapturedStderr();
  std::signal(SIGHUP, SIG_DFL);
}

TEST(StopSignalsDeathTest, TheSecondOneEndsTheProcess) {
  EXPECT_EXIT(
      {
        StopSignals signals;
        signals.begin();
        send(SIGINT);
        comes_true([&] { return signals.requested(); });
        usleep(700000);
        send(SIGINT);
        pause();
      },
      testing::ExitedWithCode(130), "stopping after this step(.|\n)*stopped at once");
}

// As `timeout` sends them, to a process and to its group.
TEST(StopSignals, TwoAtOnceAreOneRequest) {
  testing::internal::CaptureStderr();
  {
    StopSignals signals;
    signals.begin();
    send(SIGINT);
    EXPECT_TRUE(comes_true([&] { return signals.requested(); }));
    send(SIGINT);
    EXPECT_TRUE(comes_true([] { return !is_pending(SIGINT); }));
    EXPECT_EQ(signals.number(), SIGINT);
  }
  testing::internal::GetCapturedStderr();
}

TEST(StopSignalsDeathTest, EndTheProcessUntilTheyAreAskedFor) {
  EXPECT_EXIT(
      {
        const StopSignals signals;
        send(SIGTERM);
        pause();
      },
      testing::KilledBySignal(SIGTERM), "stopped; repeat the command");
}

TEST(StopSignalsDeathTest, TheOldWaysComeBack) {
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
