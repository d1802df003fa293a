#include "recipes/run/metrics.h"

#include <gmock/gmock.h>

#include "kernels/core/check.h"
#include "tests/data/temporary_folder.h"

namespace comera {
namespace {

using data::error_of;
using data::read_text;
using data::TemporaryFolder;

JsonObject loss(double value) {
  JsonObject metrics;
  metrics.add("loss", value);
  return metrics;
}

TEST(Metrics, OneLinePerCallAtOnce) {
  TemporaryFolder folder;
  MetricsWriter writer(folder / "m.jsonl", -1);
  writer.write(1, loss(0.5));
  EXPECT_EQ(read_text(folder / "m.jsonl"), "{\"step\":1,\"loss\":0.5}\n");
  writer.write(2, JsonObject());
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
  EXPECT_EQ(read_text(path), "{\"step\":10,\"loss\":10}\n");
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

}  // namespace
}  // namespace comera
