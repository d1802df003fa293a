#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/corpus/functions.h"

namespace comera::data {
namespace {

TEST(PythonFunctions, StringsAndBracketsMayStandFurtherLeft) {
  const auto found = find_documented_functions(
      R"x(class A:
    def query(self):
        """Selects everything there is."""
        text = """
SELECT * FROM table
def no_function():
# no comment
"""
        more = [
  1,
]
# a comment further left
        sum = 1 + \
2
        return text
    # of the next one
    def next(self):
        pass
)x",
      "python");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].code, R"x(def query(self):
    text = """
SELECT * FROM table
def no_function():
# no comment
"""
    more = [
1,
]
# a comment further left
    sum = 1 + \
2
    return text
)x");
}

TEST(PythonFunctions, DocstringsHaveAnyQuotes) {
  const auto one = [](const std::string& docstring) {
    const auto found =
        find_documented_functions("def f(x):\n    " + docstring + "\n    return x\n", "python");
    if (found.empty()) return std::string("none");
    EXPECT_EQ(found[0].code, "def f(x):\n    return x\n") << docstring;
    return found[0].documentation;
  };
  const std::string text = "Gives back what it takes.";
  for (const char* quote : {"\"", "'", "\"\"\"", "'''"})
    for (const char* prefix : {"", "r", "R", "u", "U"})
      EXPECT_EQ(one(prefix + (quote + text + quote)), text) << prefix << quote;
  EXPECT_EQ(one(R"('Gives back ' "what it" ' takes.')"), text);
  EXPECT_EQ(one("('Gives back '\n  'what it takes.')"), text);
  EXPECT_EQ(one("'Gives back \\\nwhat it takes.'"), text);
  EXPECT_EQ(one(R"('Gives \'x\' back.\nThat is all.'  # a comment)"), "Gives 'x' back.\nThat is all.");
  EXPECT_EQ(one(R"(r'Gives back \n and more.')"), R"(Gives back \n and more.)");
  for (const char* no_docstring : {"b'Gives back what it takes.'", "f'Gives back what it takes.'",
                                   "'Gives back what %s takes.' % x", "'Gives back what it takes.'.upper()",
                                   "x = 'Gives back what it takes.'", "'Gives back what it takes.', 1"})
    EXPECT_EQ(one(no_docstring), "none") << no_docstring;
}

}  // namespace
}  // namespace comera::data
