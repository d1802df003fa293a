#include "training/logging/metrics.h"

#include <nlohmann/json.hpp>

#include <gmock/gmock.h>

#include "kernels/core/check.h"
#include "tests/support/temporary_folder.h"

namespace comera {
namespace {

using test::error_of;
using test::read_text;
using test::TemporaryFolder;

Json loss(double value) { return {{"loss", value}}; }

TEST(Metrics, OneLinePerCallAtOnce) {
  TemporaryFolder folder;
  MetricsWriter writer(folder / "m.jsonl", -1);
  writer.write(1, loss(0.5));
  EXPECT_EQ(read_text(folder / "m.jsonl"), "{\"step\":1,\"loss\":0.5}\n");
  writer.write(2, Json::object());
  EXPECT_EQ(read_text(folder / "m.jsonl"), "{\"step\":1,\"loss\":0.5}\n{\"step\":2}\n");
}

TEST(Metrics, ResumingCutsOffLaterSteps) {
  TemporaryFolder folder;
  const auto path = folder / "m.jsonl";
  {
    MetricsWriter writer(path, -1);
    for (const int step : {10, 20, 20, 30}) writer.write(step, loss(step));
  }
  const std::string whole = read_text(path);
  { MetricsWriter writer(path, 30); }
  EXPECT_EQ(read_text(path), whole);
  {
    MetricsWriter writer(path, 25);
    writer.write(30, loss(30));
  }
  EXPECT_EQ(read_text(path), whole);
  { MetricsWriter writer(path, 15); }
  EXPECT_EQ(read_text(path), "{\"step\":10,\"loss\":10.0}\n");
  { MetricsWriter writer(path, -1); }
  EXPECT_EQ(read_text(path), "");
}

TEST(Metrics, AnUnfinishedLineIsCutOffWhereverItEnds) {
  TemporaryFolder folder;
  const std::string first = "{\"step\":1,\"note\":\"}\"}\n", second = "{\"step\":2,\"x\":{\"y\":1}}\n";
  for (std::size_t length = 0; length < second.size(); ++length) {
    folder.write("m.jsonl", first + second.substr(0, length));
    MetricsWriter writer(folder / "m.jsonl", 5);
    EXPECT_EQ(read_text(folder / "m.jsonl"), first) << length;
  }
}

TEST(Metrics, WhatIsNoLineIsCutOutAndKept) {
  TemporaryFolder folder;
  const std::string one = "{\"step\":1}\n", two = "{\"step\":2}\n", three = "{\"step\":3}\n";
  const std::filesystem::path path = folder / "m.jsonl";
  const auto report = [&](const std::string& text, std::int64_t last, std::int64_t expected = -1) {
    folder.write("m.jsonl", text);
    std::filesystem::remove(folder / "m.jsonl.damaged");
    return MetricsWriter(path, last, {.step = expected}).report();
  };
  EXPECT_EQ(report(one + two + three, 2, 2), "");
  EXPECT_EQ(read_text(path), one + two);
  EXPECT_FALSE(std::filesystem::exists(folder / "m.jsonl.damaged"));
  EXPECT_THAT(report(one + "nonsense\n{\"step\":\n" + two + three, 2, 2),
              testing::HasSubstr("2 lines (18 bytes) are not metrics"));
  EXPECT_EQ(read_text(path), one + two);
  EXPECT_EQ(read_text(folder / "m.jsonl.damaged"), "nonsense\n{\"step\":\n");
  EXPECT_THAT(report(one, 2, 2),
              testing::EndsWith("ends at step 1, but had lines up to step 2; the lines between are lost"));
  EXPECT_THAT(report(std::string(300, '\0'), 2, 2), testing::HasSubstr("1 lines (301 bytes)"));
  EXPECT_EQ(report("nonsense\n", -1), "");
  EXPECT_EQ(read_text(path), "");
  std::filesystem::remove(path);
  EXPECT_THAT(MetricsWriter(path, 2, {.step = 2}).report(),
              testing::HasSubstr("is missing, so its lines up to step 2 are lost"));
  EXPECT_EQ(report("", 2), "") << "not known";
}

TEST(Metrics, FailuresNameTheFile) {
  TemporaryFolder folder;
  EXPECT_THAT(error_of([&] { MetricsWriter(folder / "no/m.jsonl", -1); }),
              testing::HasSubstr("No such file or directory"));
}

TEST(Metrics, ALinkIsNotFollowed) {
  TemporaryFolder folder;
  const auto treasure = folder.write("treasure", "the user's\n");
  std::filesystem::create_symlink(treasure, folder / "m.jsonl");
  EXPECT_THAT(error_of([&] { MetricsWriter(folder / "m.jsonl", -1); }),
              testing::HasSubstr("m.jsonl: is a symbolic link"));
  EXPECT_EQ(read_text(treasure), "the user's\n");
}

TEST(Metrics, AFullDiskIsNoticed) {
  TemporaryFolder folder;
  if (!folder.limit(4)) GTEST_SKIP() << "mounting a small file system needs root";
  MetricsWriter writer(folder / "m.jsonl", -1);
  EXPECT_THAT(error_of([&] {
                for (int step = 0; step < 1000; ++step) writer.write(step, loss(step));
              }),
              testing::HasSubstr("m.jsonl: could not write: No space left on device"));
}

// An evaluation of the step that was saved, done after a resume, of which the next resume knows nothing.
TEST(Metrics, LinesOfTheSavedStepThatCameLaterAreWrittenAgain) {
  const test::TemporaryFolder folder;
  const std::string saved = "{\"step\":4,\"loss\":2}\n{\"step\":5,\"loss\":1}\n",
                    later = "{\"step\":5,\"validation_loss\":3}\n";
  const auto kept = [&](std::int64_t last_step, MetricsPlace expected) {
    const auto path = folder.write("m.jsonl", saved + later);
    EXPECT_EQ(MetricsWriter(path, last_step, expected).report(), "");
    return test::read_text(path);
  };
  EXPECT_EQ(kept(5, {.step = 5, .lines = 1}), saved);
  EXPECT_EQ(kept(5, {.step = 5, .lines = 2}), saved + later);
  EXPECT_EQ(kept(5, {.step = 5}), saved + later);  // of a version that did not count
  EXPECT_EQ(kept(5, {.step = 4, .lines = 1}), "{\"step\":4,\"loss\":2}\n");  // logged less often than saved
}

}  // namespace
}  // namespace comera
