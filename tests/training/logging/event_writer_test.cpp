#include "training/logging/event_writer.h"

#include <nlohmann/json.hpp>

#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>

#include "tests/support/temporary_folder.h"

namespace comera {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> contents(const fs::path& folder) {
  std::vector<fs::path> files(fs::directory_iterator(folder), fs::directory_iterator{});
  std::ranges::sort(files);
  std::vector<std::string> texts;
  for (const fs::path& file : files) {
    EXPECT_THAT(file.filename().string(), testing::StartsWith("events.out.tfevents."));
    texts.push_back(test::read_text(file));
  }
  return texts;
}

std::size_t records(const std::string& file) {
  std::size_t count = 0;
  for (std::size_t at = 0; at < file.size(); ++count) {
    std::uint64_t length = 0;
    std::memcpy(&length, &file[at], sizeof length);
    at += length + 16;
  }
  return count;
}

TEST(EventWriter, LinesAreThereAtOnce) {
  const test::TemporaryFolder folder;
  EventWriter writer(folder / "tensorboard", 0);
  EXPECT_EQ(records(contents(folder / "tensorboard").at(0)), 1U);  // the version
  writer.write(10, {{"loss", 0.5}});
  const std::string file = contents(folder / "tensorboard").at(0);
  EXPECT_EQ(records(file), 2U);
  EXPECT_THAT(file, testing::HasSubstr("loss"));
}

// TensorBoard drops what it has of later steps when a file begins with a session from a step on.
TEST(EventWriter, AResumedRunHasAFileOfItsOwnFromItsStepOn) {
  const test::TemporaryFolder folder;
  {
    EventWriter first(folder / "tensorboard", 0);
    first.write(10, {{"loss", 0.5}});
    first.write(20, {{"loss", 0.4}});
  }
  EventWriter second(folder / "tensorboard", 10);
  second.write(20, {{"loss", 0.4}});
  const std::vector<std::string> files = contents(folder / "tensorboard");
  ASSERT_EQ(files.size(), 2U);
  EXPECT_EQ(records(files[0]), 3U);
  EXPECT_EQ(records(files[1]), 3U);
  // Step 11, and the session log {status: START}.
  EXPECT_THAT(files[1], testing::HasSubstr(std::string("\x10\x0b\x3a\x02\x08\x01")));
}

}  // namespace
}  // namespace comera
