#include "training/run/divergence_watch.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

namespace comera {
namespace {

using Finding = DivergenceWatch::Finding;

constexpr double uniform = 9.0;  // of some 8,000 pieces

struct Found {
  int high = 0, absurd = 0;  // the step of the first one; 0: none
  int times_high = 0;
};

Found watch(int steps, const std::function<double(int)>& loss, double guess = uniform,
            bool from_start = true) {
  DivergenceWatch watch(guess, from_start);
  Found found;
  for (int step = 1; step <= steps; ++step) {
    const auto now = watch.add(loss(step));
    if (now == Finding::high && ++found.times_high == 1) found.high = step;
    if (now == Finding::absurd && found.absurd == 0) found.absurd = step;
  }
  return found;
}

void expect_nothing(const Found& found) {
  EXPECT_EQ(found.high, 0);
  EXPECT_EQ(found.absurd, 0);
}

TEST(DivergenceWatch, NamesARunawayLossWithinAHundredSteps) {
  const Found found = watch(400, [](int step) { return step < 10 ? 9.1 : 9.0 + step; });
  EXPECT_GT(found.high, 0);
  EXPECT_LE(found.high, 100);
  EXPECT_EQ(found.times_high, 1) << "once is enough";
  EXPECT_EQ(found.absurd, 0);
}

TEST(DivergenceWatch, StopsWhatIsAbsurd) {
  const Found found = watch(200, [](int step) { return step < 15 ? 9.1 : 1e4 * step; });
  EXPECT_GT(found.absurd, 0);
  EXPECT_LE(found.absurd, 100);
}

TEST(DivergenceWatch, NamesALossThatFallsTooSlowly) {
  const Found found = watch(
      100, [](int step) { return 60 * std::exp(-0.006 * step); }, uniform, false);
  EXPECT_GT(found.high, 0);
}

TEST(DivergenceWatch, SaysNothingOfOrdinaryTraining) {
  expect_nothing(watch(1000, [](int step) { return 3 + 6.2 * std::exp(-step / 100.0); }));
  // Noise of single steps, and a short jump.
  expect_nothing(watch(1000, [](int step) { return step % 50 == 7 ? 30 : 6.5; }));
  expect_nothing(watch(1000, [](int step) { return step > 200 && step < 225 ? 20 : 6.5; }));
  // Stuck at guessing: that is not divergence.
  expect_nothing(watch(1000, [](int) { return 9.2; }));
  // Two classes in small batches.
  expect_nothing(watch(
      1000, [](int step) { return step % 2 == 0 ? 0.1 : 1.9; }, std::log(2.0)));
}

TEST(DivergenceWatch, MeasuresAModelThatStartsHighByItsStart) {
  expect_nothing(watch(400, [](int step) { return 4 + 40 * std::exp(-step / 300.0); }));
  // A resumed run has no start of its own, but a loss that falls fast has time.
  expect_nothing(watch(
      400, [](int step) { return 4 + 16 * std::exp(-step / 30.0); }, uniform, false));
}

TEST(DivergenceWatch, KnowsWhetherTheLastStepWasHigh) {
  DivergenceWatch watch(uniform, true);
  watch.add(9.1);
  EXPECT_FALSE(watch.now_high());
  watch.add(1e4);
  EXPECT_EQ(watch.now_high(), 1e4);
}

TEST(DivergenceWatch, KnowsNoGuessOfARegression) {
  expect_nothing(watch(
      400, [](int step) { return 1e6 * step; }, 0));
}

}  // namespace
}  // namespace comera
