// Files as passages to search for.
#include <gmock/gmock.h>

#include "data/vectors/passages.h"

namespace comera::data {
namespace {

using testing::ElementsAre;
using testing::Pair;

std::vector<std::pair<std::int64_t, std::string>> passages(std::string_view text, std::size_t most) {
  std::vector<std::pair<std::int64_t, std::string>> all;
  for (const Passage& passage : passages_of(text, most)) all.emplace_back(passage.line, passage.text);
  return all;
}

TEST(Passages, BeginAtFunctionsWithTheirComments) {
  const std::string text =
      "import os\n\n# Reads.\ndef read(path):\n    with open(path) as file:\n\n        return "
      "file.read()\n\n\n"
      "def write(path, text):\n    open(path, 'w').write(text)\n}\n";
  EXPECT_THAT(passages(text, 120),
              ElementsAre(Pair(1, "import os"),
                          Pair(3,
                               "# Reads.\ndef read(path):\n    with open(path) as file:\n\n        return "
                               "file.read()"),
                          Pair(10, "def write(path, text):\n    open(path, 'w').write(text)\n}")));
  // Short ones stay together.
  EXPECT_THAT(passages("a = 1\n\nb = 2\n\nc = 3\n", 60), ElementsAre(Pair(1, "a = 1\n\nb = 2\n\nc = 3")));
}

TEST(Passages, LongOnesAreDividedAtBlankLinesAndElseAtAny) {
  EXPECT_THAT(passages("def f():\n  one\n\n  two\n\n  three\n", 18),
              ElementsAre(Pair(1, "def f():\n  one"), Pair(4, "  two\n\n  three")));
  EXPECT_THAT(
      passages("aaaaaaaa\nbbbbbbbb\ncccccccccccccccccccccccccc\nd\n", 18),
      ElementsAre(Pair(1, "aaaaaaaa\nbbbbbbbb"), Pair(3, "cccccccccccccccccccccccccc"), Pair(4, "d")));
}

TEST(Passages, OnesThatSayNothingAreLeftOut) {
  EXPECT_TRUE(passages("", 10).empty());
  EXPECT_TRUE(passages("\n\n}\n\n---\n", 10).empty());
  EXPECT_THAT(passages("\xc3\xa9\n", 10), ElementsAre(Pair(1, "\xc3\xa9")));
  EXPECT_THAT(passages("no end", 10), ElementsAre(Pair(1, "no end")));
}

TEST(Passages, TheFirstLineEndsBetweenCharacters) {
  EXPECT_EQ(first_line_of("\n  \n  one two \nthree"), "one two");
  EXPECT_EQ(first_line_of("abc\xc3\xa9", 4), "abc");
  EXPECT_EQ(first_line_of("abc\xc3\xa9", 5), "abc\xc3\xa9");
  EXPECT_EQ(first_line_of("abcdef", 4), "abcd");
  EXPECT_EQ(first_line_of(" \n"), "");
}

}  // namespace
}  // namespace comera::data
