#include "storage/new_folders.h"

#include <gmock/gmock.h>

#include <optional>

#include "storage/durable_file.h"
#include "storage/folder_lock.h"
#include "tests/support/temporary_folder.h"

namespace comera::storage {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

TEST(NewFolders, RemovesWhatItHasMadeAndNothingElse) {
  const test::TemporaryFolder folder;
  fs::create_directory(folder / "there");
  {
    const NewFolders made(folder / "there/a/b");
    EXPECT_TRUE(fs::is_directory(folder / "there/a/b"));
  }
  EXPECT_TRUE(fs::is_directory(folder / "there"));
  EXPECT_FALSE(fs::exists(folder / "there/a"));
  {
    const NewFolders made(folder / "there/a/b");
    folder.write("there/a/file", "x");
  }
  EXPECT_TRUE(fs::exists(folder / "there/a/file"));
  EXPECT_FALSE(fs::exists(folder / "there/a/b"));
  { const NewFolders made(folder / "there"); }
  EXPECT_TRUE(fs::is_directory(folder / "there"));
}

// Of two that make one folder, the second has made nothing.
TEST(NewFolders, LeavesWhatAnotherHasMade) {
  const test::TemporaryFolder folder;
  const NewFolders first(folder / "new");
  { const NewFolders second(folder / "new"); }
  EXPECT_TRUE(fs::is_directory(folder / "new"));
}

// It has made nothing there yet.
TEST(NewFolders, LeavesWhatAnotherHasLocked) {
  const test::TemporaryFolder folder;
  std::optional<NewFolders> made(folder / "new");
  const FolderLock lock(folder / "new", "making shards");
  made.reset();
  EXPECT_TRUE(fs::is_directory(folder / "new"));
}

// Such as one to a disk that is not mounted.
TEST(NewFolders, ALinkThatLeadsNowhereStaysAndIsNamed) {
  const test::TemporaryFolder folder;
  fs::create_symlink("/nowhere/disk", folder / "runs");
  for (const char* path : {"runs", "runs/first", "runs/first/data"})
    EXPECT_THAT(
        test::error_of([&] { NewFolders(folder / path); }),
        AllOf(HasSubstr((folder / "runs").string() + ": is a link to /nowhere/disk, which does not exist"),
              HasSubstr("mount or create it")))
        << path;
  EXPECT_TRUE(fs::is_symlink(folder / "runs"));
  // One that leads to a folder is as good as that.
  fs::create_directory(folder / "disk");
  fs::create_directory_symlink(folder / "disk", folder / "link");
  { const NewFolders made(folder / "link/first"); }
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
  EXPECT_TRUE(fs::is_empty(folder / "disk"));
}

}  // namespace
}  // namespace comera::storage
