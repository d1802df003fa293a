#include "training/logging/run_starts.h"

#include <gmock/gmock.h>

#include <fstream>

#include "tests/support/temporary_folder.h"

namespace comera {
namespace {

TEST(RunStarts, EachStartIsALineWithTimeMachineAndCommand) {
  const test::TemporaryFolder folder;
  EXPECT_TRUE(read_starts(folder / "starts.jsonl").empty());
  note_start(folder / "starts.jsonl", 0, "2 threads, v3");
  note_start(folder / "starts.jsonl", 40, "2 threads, v3");
  std::ofstream(folder / "starts.jsonl", std::ios::app) << "{\"time\":\"20";  // a killed process
  const std::vector<RunStart> starts = read_starts(folder / "starts.jsonl");
  ASSERT_EQ(starts.size(), 2U);
  EXPECT_EQ(starts[0].step, 0);
  EXPECT_EQ(starts[1].step, 40);
  EXPECT_THAT(starts[0].time, testing::MatchesRegex("[0-9-]+ [0-9]+:[0-9]+"));
  EXPECT_THAT(starts[0].machine, testing::EndsWith("CPUs; 2 threads, v3"));
  EXPECT_THAT(starts[0].command.at(0), testing::HasSubstr("training_parts_test"));
  note_start(folder / "starts.jsonl", 0, "2 threads, v3");
  EXPECT_EQ(read_starts(folder / "starts.jsonl").size(), 1U) << "the run was replaced";
}

}  // namespace
}  // namespace comera
