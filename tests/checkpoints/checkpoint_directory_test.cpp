#include <gmock/gmock.h>

#include "tests/checkpoints/sample.h"

namespace comera::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

void save(CheckpointDirectory& directory, std::int64_t step) {
  directory.save(step, [&](CheckpointWriter& writer) { fill_sample(writer, static_cast<double>(step)); });
}

void damage(const std::filesystem::path& file) {
  std::string bytes = read_text(file);
  bytes[bytes.size() / 2] ^= 1;
  std::ofstream(file, std::ios::binary) << bytes;
}

TEST(CheckpointDirectory, KeepsTheNewest) {
  TemporaryFolder folder;
  CheckpointDirectory directory(folder / "checkpoints", 2);
  for (const int step : {5, 10, 15, 20}) save(directory, step);
  EXPECT_THAT(checkpoint_steps(folder / "checkpoints"), ElementsAre(15, 20));
  EXPECT_EQ(read_text(folder / "checkpoints/latest"), "step-00000020.h5\n");
  const auto found = find_latest(folder / "checkpoints", ResumeMode::newest);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->step, 20);
  EXPECT_EQ(found->path, folder / "checkpoints/step-00000020.h5");
  EXPECT_TRUE(found->refused.empty());
}

// By this process until it ends: the run that keeps one leaves it, and goes on.
TEST(CheckpointDirectory, WhatIsReadIsNotRemoved) {
  TemporaryFolder folder;
  CheckpointDirectory directory(folder.path(), 1);
  save(directory, 1);
  const auto found = find_latest(folder.path(), ResumeMode::newest_to_read);
  ASSERT_TRUE(found);
  save(directory, 2);
  save(directory, 3);
  EXPECT_THAT(checkpoint_steps(folder.path()), ElementsAre(1, 3));
  CheckpointReader(found->path).verify();
}

// A long text in `latest` names nothing.
TEST(CheckpointDirectory, LatestMayBeAnything) {
  TemporaryFolder folder;
  CheckpointDirectory directory(folder.path(), 3);
  for (const int step : {1, 2}) save(directory, step);
  folder.write("latest", std::string(5000, 'x'));
  EXPECT_EQ(find_latest(folder.path(), ResumeMode::newest)->step, 2);
  EXPECT_EQ(find_latest(folder.path(), ResumeMode::newest_valid)->step, 2);
}

TEST(CheckpointDirectory, NothingThere) {
  TemporaryFolder folder;
  EXPECT_FALSE(find_latest(folder / "absent", ResumeMode::newest));
  EXPECT_FALSE(find_latest(folder.path(), ResumeMode::newest_valid));
}

TEST(CheckpointDirectory, ADamagedNewestIsReportedAndSkippedOnlyWhenAskedFor) {
  TemporaryFolder folder;
  CheckpointDirectory directory(folder.path(), 3);
  for (const int step : {1, 2, 3}) save(directory, step);
  damage(directory.file_of(3));
  EXPECT_THAT(
      error_of([&] { find_latest(folder.path(), ResumeMode::newest); }),
      testing::AllOf(HasSubstr("step-00000003.h5: is damaged"), HasSubstr("resumes from the one before")));
  const auto found = find_latest(folder.path(), ResumeMode::newest_valid);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->step, 2);
  ASSERT_EQ(found->refused.size(), 1u);
  EXPECT_THAT(found->refused[0].reason, HasSubstr("step-00000003.h5: is damaged"));
  EXPECT_THAT(error_of([&] { find_latest(folder.path(), ResumeMode::newest_to_read); }),
              testing::AllOf(HasSubstr("name an older one instead: " + directory.file_of(2).string()),
                             testing::Not(HasSubstr("--use-older-checkpoint"))));

  damage(directory.file_of(2));
  EXPECT_THAT(error_of([&] { find_latest(folder.path(), ResumeMode::newest_to_read); }),
              HasSubstr("name an older one instead: " + directory.file_of(1).string()));
  damage(directory.file_of(1));
  EXPECT_THAT(error_of([&] { find_latest(folder.path(), ResumeMode::newest_to_read); }),
              HasSubstr("; nor can any of the 2 older ones"));
  EXPECT_THAT(error_of([&] { find_latest(folder.path(), ResumeMode::newest_valid); }),
              HasSubstr("none of the 3 checkpoints can be used"));
}

TEST(CheckpointDirectory, ADamagedOneThatIsSetAsideStaysAndDoesNotCount) {
  TemporaryFolder folder;
  CheckpointDirectory directory(folder.path(), 2);
  for (const int step : {1, 2, 3}) save(directory, step);
  damage(directory.file_of(3));
  const std::filesystem::path aside = directory.set_aside(directory.file_of(3));
  EXPECT_EQ(aside, folder / "step-00000003.h5.damaged");
  EXPECT_EQ(find_latest(folder.path(), ResumeMode::newest)->step, 2);
  for (const int step : {3, 4}) save(directory, step);
  EXPECT_THAT(checkpoint_steps(folder.path()), ElementsAre(3, 4));
  EXPECT_TRUE(std::filesystem::exists(aside));
}

TEST(CheckpointDirectory, AContinuationFromAnEarlierStepReplacesLaterOnes) {
  TemporaryFolder folder;
  CheckpointDirectory directory(folder.path(), 3);
  for (const int step : {10, 20, 30}) save(directory, step);
  save(directory, 15);
  EXPECT_THAT(checkpoint_steps(folder.path()), ElementsAre(10, 15));
  save(directory, 15);  // again: replaced
  EXPECT_EQ(find_latest(folder.path(), ResumeMode::newest)->step, 15);
}

TEST(CheckpointDirectory, WhatAKilledProcessLeftIsIgnoredAndRemoved) {
  TemporaryFolder folder;
  {
    CheckpointDirectory directory(folder.path(), 3);
    save(directory, 1);
  }
  folder.write(".step-00000002.h5.1.comera-tmp", read_text(folder / "step-00000001.h5"));
  folder.write(".latest.999999999.comera-tmp", "step-0000");
  folder.write("notes.tmp", "somebody else's");
  folder.write("step-3.h5", "somebody else's");
  EXPECT_EQ(find_latest(folder.path(), ResumeMode::newest)->step, 1);
  CheckpointDirectory again(folder.path(), 3);
  EXPECT_FALSE(std::filesystem::exists(folder / ".step-00000002.h5.1.comera-tmp"));
  EXPECT_FALSE(std::filesystem::exists(folder / ".latest.999999999.comera-tmp"));
  EXPECT_EQ(read_text(folder / "notes.tmp"), "somebody else's");
  EXPECT_TRUE(std::filesystem::exists(folder / "step-3.h5"));
}

TEST(CheckpointDirectory, WhatEarlierVersionsLeftIsRemoved) {
  TemporaryFolder folder;
  for (const char* name : {"step-00000002.h5.tmp", "latest.tmp", "mine.tmp"}) folder.write(name, "x");
  const CheckpointDirectory directory(folder.path(), 3);
  EXPECT_FALSE(std::filesystem::exists(folder / "step-00000002.h5.tmp"));
  EXPECT_FALSE(std::filesystem::exists(folder / "latest.tmp"));
  EXPECT_TRUE(std::filesystem::exists(folder / "mine.tmp"));
}

TEST(CheckpointDirectory, WhatToDoWithoutAnOlderOneIsSaid) {
  TemporaryFolder folder;
  CheckpointDirectory directory(folder.path(), 3);
  save(directory, 1);
  std::filesystem::resize_file(directory.file_of(1), 100);
  EXPECT_THAT([&] { find_latest(folder.path(), ResumeMode::newest); },
              testing::ThrowsMessage<Error>(HasSubstr(
                  "cannot be used; there is no older one: start the run again with another --output")));
}

TEST(CheckpointDirectory, KilledBetweenRenameAndLatest) {
  TemporaryFolder folder;
  CheckpointDirectory directory(folder.path(), 3);
  save(directory, 1);
  write_sample(directory.file_of(2));
  EXPECT_EQ(find_latest(folder.path(), ResumeMode::newest)->step, 2);
  EXPECT_EQ(read_text(folder / "latest"), "step-00000001.h5\n");
  CheckpointDirectory again(folder.path(), 3);
  EXPECT_EQ(read_text(folder / "latest"), "step-00000002.h5\n");
}

TEST(CheckpointDirectory, AFailureWhileSavingLeavesTheOldOnes) {
  TemporaryFolder folder;
  CheckpointDirectory directory(folder.path(), 1);
  save(directory, 1);
  EXPECT_THROW(directory.save(2,
                              [](CheckpointWriter& writer) {
                                fill_sample(writer);
                                throw Error("stopped");
                              }),
               Error);
  EXPECT_THAT(checkpoint_steps(folder.path()), ElementsAre(1));
  EXPECT_THAT(left_overs(folder.path()), testing::IsEmpty());
}

TEST(CheckpointDirectory, AFullDisk) {
  TemporaryFolder folder;
  if (!folder.limit(1024)) GTEST_SKIP() << "mounting a file system of 1 MiB needs root";
  CheckpointDirectory directory(folder.path(), 3);
  save(directory, 1);
  const auto before = std::filesystem::space(folder.path()).available;
  auto values = counting<float>(1 << 18);
  const auto save_large = [&] {
    directory.save(2, [&](CheckpointWriter& writer) { writer.tensor("/x", view(values, {1 << 18})); });
  };
  EXPECT_THAT(error_of(save_large), HasSubstr("No space left on device"));
  EXPECT_EQ(std::filesystem::space(folder.path()).available, before);
  EXPECT_THAT(checkpoint_steps(folder.path()), ElementsAre(1));
  EXPECT_EQ(read_text(folder / "latest"), "step-00000001.h5\n");
  EXPECT_EQ(find_latest(folder.path(), ResumeMode::newest)->step, 1);
}

TEST(CheckpointDirectory, ADiskThatFillsUpAnywhere) {
  TemporaryFolder folder;
  if (!folder.limit(1024)) GTEST_SKIP() << "mounting a file system of 1 MiB needs root";
  CheckpointDirectory directory(folder.path(), 9);
  save(directory, 1);
  const std::string whole = content_of(directory.file_of(1));
  // The file needs some 120 KiB: the disk ends in the tensors, the structure, the manifest, and `latest`.
  int failures = 0;
  for (int free = 0; free <= 160; free += 4) {
    const auto available = std::filesystem::space(folder.path()).available;
    folder.write("filler", std::string(available - static_cast<std::uintmax_t>(free) * 1024, 'x'));
    const std::string message = error_of([&] { save(directory, 2); });
    if (!message.empty()) {
      ++failures;
      EXPECT_THAT(message, HasSubstr("No space left on device")) << free;
    }
    EXPECT_EQ(content_of(directory.file_of(1)), whole) << free;
    EXPECT_TRUE(find_latest(folder.path(), ResumeMode::newest)) << free;
    EXPECT_THAT(left_overs(folder.path()), testing::IsEmpty()) << free;
    std::filesystem::remove(folder / "filler");
    std::filesystem::remove(directory.file_of(2));
  }
  EXPECT_GT(failures, 10);
  EXPECT_LT(failures, 41);
}

}  // namespace
}  // namespace comera::test
