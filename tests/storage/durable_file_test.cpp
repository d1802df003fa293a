#include "storage/durable_file.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "kernels/core/check.h"
#include "storage/free_name.h"
#include "storage/hdf5.h"
#include "tests/support/temporary_folder.h"

namespace comera::storage {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::IsEmpty;

class DurableFiles : public testing::Test {
 protected:
  // A link of that name to a file of the user's, which must not change.
  fs::path link_to_treasure(const std::string& name) const {
    folder_.write("treasure", "the user's");
    fs::remove(folder_ / name);
    fs::create_symlink("treasure", folder_ / name);
    return folder_ / name;
  }
  void expect_treasure() const { EXPECT_EQ(test::read_text(folder_ / "treasure"), "the user's"); }

  test::TemporaryFolder folder_;
};

// Two processes that must both replace nothing.
TEST_F(DurableFiles, WhatComesMeanwhileStays) {
  never_replace(folder_ / "out.tsv");
  {
    DurableFile file(folder_ / "out.tsv");
    folder_.write(file.temporary().filename().string(), "ours");
    folder_.write("out.tsv", "of another process");
    try {
      file.commit();
      FAIL() << "it was replaced";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(),
                  HasSubstr("out.tsv: another process has made it meanwhile; give --overwrite"));
    }
  }
  EXPECT_EQ(test::read_text(folder_ / "out.tsv"), "of another process");
  EXPECT_THAT(test::left_overs(folder_.path()), IsEmpty());
}

TEST_F(DurableFiles, AFreeNameIsGivenOnce) {
  never_replace(folder_ / "out.tsv");
  write_file_durably(folder_ / "out.tsv", "first");
  write_file_durably(folder_ / "out.tsv", "second");
  EXPECT_EQ(test::read_text(folder_ / "out.tsv"), "second");
}

TEST_F(DurableFiles, NoNeighbourIsTouched) {
  folder_.write("a.tsv.tmp", "the user's");
  fs::create_symlink("a.tsv.tmp", folder_ / "b.tsv.tmp");
  write_file_durably(folder_ / "a.tsv", "text");
  write_file_durably(folder_ / "b.tsv", "more");
  EXPECT_EQ(test::read_text(folder_ / "a.tsv"), "text");
  EXPECT_EQ(test::read_text(folder_ / "b.tsv"), "more");
  EXPECT_EQ(test::read_text(folder_ / "a.tsv.tmp"), "the user's");
  EXPECT_THAT(test::left_overs(folder_.path()), IsEmpty());
}

TEST_F(DurableFiles, ALinkUnderTheTemporaryNameIsNotFollowed) {
  const fs::path temporary = DurableFile(folder_ / "a.tsv").temporary();
  link_to_treasure(temporary.filename().string());
  write_file_durably(folder_ / "a.tsv", "text");
  EXPECT_EQ(test::read_text(folder_ / "a.tsv"), "text");
  expect_treasure();
}

TEST_F(DurableFiles, ALinkIsReplacedAndWhatItLeadsToStays) {
  const fs::path link = link_to_treasure("a.tsv");
  write_file_durably(link, "text");
  EXPECT_FALSE(fs::is_symlink(link));
  EXPECT_EQ(test::read_text(link), "text");
  expect_treasure();
}

TEST_F(DurableFiles, TheOldNameIsGoneEvenIfBothAreOfOneFile) {
  const fs::path first = folder_ / "first", second = folder_ / "second";
  write_file_durably(first, "text");
  link_file_durably(first, second);
  rename_durably(first, second);
  EXPECT_FALSE(fs::exists(first));
  EXPECT_EQ(test::read_text(second), "text");
  fs::create_directory(folder_ / "other");
  const fs::path third = folder_ / "other" / "second";
  link_file_durably(second, third);
  rename_durably(third, second);
  EXPECT_FALSE(fs::exists(third));
  rename_durably(second, second);
  EXPECT_EQ(test::read_text(second), "text");
}

TEST_F(DurableFiles, OnlyAFileIsReplaced) {
  const fs::path pipe = folder_ / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  fs::create_symlink("/dev/null", folder_ / "null");
  for (const fs::path& name : {pipe, folder_ / "null", fs::path("/dev/null")})
    EXPECT_THAT(test::error_of([&] { write_file_durably(name, "text"); }),
                HasSubstr("is not a regular file, and only a file can be replaced"))
        << name;
  EXPECT_THAT(test::error_of([&] { write_file_durably(folder_.path(), "text"); }), HasSubstr("is a folder"));
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST_F(DurableFiles, WhatKilledProcessesLeftIsRemovedAndWhatOthersWriteIsNot) {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  waitpid(child, nullptr, 0);
  const std::string gone = std::to_string(child), ours = std::to_string(getpid());
  const fs::path others = folder_.write(".a.tsv.1.comera-tmp", "being written"),
                 another = folder_.write(".b.tsv." + gone + ".comera-tmp", "of another file"),
                 not_ours = folder_.write(".a.tsv.x.comera-tmp", "no process"),
                 dead = folder_.write(".a.tsv." + gone + ".comera-tmp", "half"),
                 before = folder_.write(".a.tsv." + ours + ".comera-tmp", "half");
  { const DurableFile file(folder_ / "a.tsv"); }
  EXPECT_THAT(test::left_overs(folder_.path()), testing::UnorderedElementsAre(others, another, not_ours));
  remove_left_overs_of(folder_ / "a.tsv");
  EXPECT_THAT(test::left_overs(folder_.path()), testing::UnorderedElementsAre(another, not_ours));
  remove_left_overs_in(folder_.path());
  EXPECT_THAT(test::left_overs(folder_.path()), testing::ElementsAre(not_ours));
}

TEST_F(DurableFiles, NamesMayBeAsLongAsTheSystemTakes) {
  const fs::path file = folder_ / std::string(255, 'n');
  write_file_durably(file, "text");
  EXPECT_EQ(test::read_text(file), "text");
  EXPECT_THAT(test::error_of([&] { write_file_durably(folder_ / std::string(256, 'n'), "text"); }),
              HasSubstr("File name too long"));
  EXPECT_THAT(test::left_overs(folder_.path()), IsEmpty());
}

TEST_F(DurableFiles, ACopyIsAFileOfItsOwn) {
  const fs::path from = folder_.write("a", "text");
  copy_file_durably(from, folder_ / "b");
  EXPECT_EQ(test::read_text(folder_ / "b"), "text");
  EXPECT_FALSE(fs::equivalent(from, folder_ / "b"));
}

TEST_F(DurableFiles, WhatGrowsUnderItsOwnNameIsAFile) {
  const fs::path link = link_to_treasure("log"), pipe = folder_ / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(test::error_of([&] { FileDescriptor::open_own(link).write(0, "x"); }),
              HasSubstr("log: is a symbolic link, and nothing is written through it"));
  EXPECT_THAT(test::error_of([&] { FileDescriptor::open_own(pipe); }), HasSubstr("is not a regular file"));
  EXPECT_THAT(test::error_of([&] { FileDescriptor::open_own(folder_.path()); }), HasSubstr("is a folder"));
  FileDescriptor::open_own(folder_ / "new").write(0, "x");
  FileDescriptor::open_own(folder_ / "new").write(1, "y");
  EXPECT_EQ(test::read_text(folder_ / "new"), "xy");
  expect_treasure();
}

TEST_F(DurableFiles, NewFilesAreNew) {
  const std::vector<std::function<void(const fs::path&)>> makers = {
      [](const fs::path& path) { FileDescriptor::create(path); },
      [](const fs::path& path) { hdf5::File::create(path); }};
  for (const auto& make : makers) {
    EXPECT_THAT(test::error_of([&] { make(link_to_treasure("link")); }), HasSubstr("File exists"));
    expect_treasure();
    EXPECT_THAT(test::error_of([&] { make(folder_ / "treasure"); }), HasSubstr("File exists"));
    expect_treasure();
    fs::create_symlink("nowhere", folder_ / "dangling");
    EXPECT_THAT(test::error_of([&] { make(folder_ / "dangling"); }), HasSubstr("File exists"));
    EXPECT_FALSE(fs::exists(folder_ / "nowhere"));
    fs::remove(folder_ / "dangling");
  }
}

TEST_F(DurableFiles, FoldersThatCannotBeAreSentences) {
  fs::create_symlink("loop", folder_ / "loop");
  EXPECT_THAT(test::error_of([&] { create_directories_durably(folder_ / "loop/x"); }),
              HasSubstr("loop/x: could not create the directory: Too many levels of symbolic links"));
  EXPECT_THAT(test::error_of([&] { create_directories_durably(folder_ / std::string(256, 'n')); }),
              HasSubstr("could not create the directory: File name too long"));
}

TEST_F(DurableFiles, WhatIsThereAlreadyIsKept) {
  const auto file = folder_.write("a", "the same");
  const auto before = std::filesystem::last_write_time(file);
  struct stat first {
  }, then{};
  ASSERT_EQ(stat(file.c_str(), &first), 0);
  keep_file_durably(file, "the same");
  ASSERT_EQ(stat(file.c_str(), &then), 0);
  EXPECT_EQ(first.st_ino, then.st_ino);
  EXPECT_EQ(std::filesystem::last_write_time(file), before);
  keep_file_durably(file, "the sam");
  EXPECT_EQ(test::read_text(file), "the sam");
  keep_file_durably(folder_ / "new", "text");
  EXPECT_EQ(test::read_text(folder_ / "new"), "text");
}

// Opening a pipe would wait for its other end, which does not exist.
TEST_F(DurableFiles, APipeIsNotWaitedFor) {
  const std::string pipe = folder_ / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0666), 0);
  EXPECT_THAT(test::error_of([&] { keep_file_durably(pipe, "text"); }),
              HasSubstr("pipe: is not a regular file"));
}

TEST_F(DurableFiles, ANameThatCannotBeGivenIsRefusedBeforeTheWork) {
  EXPECT_THAT(test::error_of([&] { DurableFile file(folder_ / std::string(256, 'x')); }),
              HasSubstr("File name too long"));
  folder_.write("file", "");
  EXPECT_THAT(test::error_of([&] { DurableFile file(folder_ / "file/below"); }),
              HasSubstr("Not a directory"));
}

}  // namespace
}  // namespace comera::storage
