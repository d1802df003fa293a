#include "storage/folder_lock.h"

#include <gmock/gmock.h>

#include "tests/support/temporary_folder.h"

namespace comera::storage {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

TEST(FolderLock, IsOneProcesssAtATime) {
  const test::TemporaryFolder folder;
  {
    const FolderLock lock(folder.path(), "making shards");
    EXPECT_THAT(test::error_of([&] { FolderLock(folder.path(), "making shards"); }),
                HasSubstr(folder.path().string() +
                          ": another process is making shards there; wait until it has ended"));
  }
  const FolderLock again(folder.path(), "making shards");
  EXPECT_THAT(test::error_of([&] { FolderLock(folder / "none", "making shards"); }),
              HasSubstr("could not open"));
}

TEST(SwapFolders, ChangesTheNamesOfTwoInOneStep) {
  const test::TemporaryFolder folder;
  folder.write("new/file", "new");
  swap_folders(folder / "new", folder / "name");
  EXPECT_EQ(test::read_text(folder / "name/file"), "new");
  EXPECT_FALSE(fs::exists(folder / "new"));
  folder.write("newer/file", "newer");
  swap_folders(folder / "newer", folder / "name");
  EXPECT_EQ(test::read_text(folder / "name/file"), "newer");
  EXPECT_EQ(test::read_text(folder / "newer/file"), "new");
  EXPECT_THAT(test::error_of([&] { swap_folders(folder / "none", folder / "name"); }),
              HasSubstr("could not be put in its place"));
}

}  // namespace
}  // namespace comera::storage
