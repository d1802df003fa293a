#include "storage/small_file.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include "kernels/core/check.h"
#include "tests/support/temporary_folder.h"

namespace comera::storage {
namespace {

using testing::HasSubstr;

std::string refusal(const std::filesystem::path& path) {
  return test::error_of([&] { read_small_file(path, 1 << 20, "a recipe"); });
}

TEST(SmallFile, IsReadWhole) {
  test::TemporaryFolder folder;
  for (const std::size_t bytes : {0, 1, 1 << 16, 100000, 1 << 20}) {
    const std::string text(bytes, 'x');
    EXPECT_EQ(read_small_file(folder.write("a", text), 1 << 20, "a recipe"), text);
  }
  EXPECT_FALSE(read_small_file("/proc/self/status", 1 << 20, "a recipe").empty());
}

TEST(SmallFile, WhatIsNoFileOrTooLargeIsRefusedAtOnce) {
  test::TemporaryFolder folder;
  const auto pipe = folder / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(refusal(pipe), HasSubstr("is not a regular file but a device or a pipe, as <(...) makes one"));
  EXPECT_THAT(refusal("/dev/zero"), HasSubstr("/dev/zero: is not a regular file"));
  EXPECT_THAT(refusal(folder.path()), HasSubstr("is a directory; expected a recipe"));
  EXPECT_THAT(refusal(folder / "none"), HasSubstr("none: no such file; expected"));
  EXPECT_THAT(refusal(folder / std::string(300, 'n')), HasSubstr("File name too long"));
  folder.write("large", "");
  std::filesystem::resize_file(folder / "large", std::uintmax_t{1} << 40);  // a hole: no disk has it
  EXPECT_THAT(refusal(folder / "large"),
              HasSubstr("has 1099511627776 bytes, more than the limit of 1048576"));
  EXPECT_EQ(refusal(folder.write("larger", std::string((1 << 20) + 1, 'x'))).find('\n'), std::string::npos);
}

}  // namespace
}  // namespace comera::storage
