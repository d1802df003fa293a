#include "data/corpus/functions.h"

#include <gmock/gmock.h>

#include <map>
#include <set>

#include "data/corpus/function_pairs.h"
#include "data/tables/table_reader.h"
#include "tests/data/corpus/small_corpus.h"
#include "tests/support/temporary_folder.h"

namespace comera::data {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Functions, PythonDocstringsAreParted) {
  const auto found = find_documented_functions(
      "class A:\n"
      "    def add(self, a,\n"
      "            b=(1, 2)):\n"
      "        \"\"\"Adds two numbers together.\n"
      "\n"
      "        More about it.\n"
      "        \"\"\"\n"
      "        if a:\n"
      "            return b\n"
      "\n"
      "        return a + b\n"
      "\n"
      "    async def other(self): r'''Documentation on one line'''\n"
      "    def third(self):\n"
      "        '''Documentation that stands alone.'''\n"
      "    def fourth(self):\n"
      "        r'''Fetches all the things there are.'''\n"
      "        return 1\n"
      "def short(): \n"
      "    \"\"\"Too short\"\"\"\n"
      "    return 2\n"
      "def open(): \n"
      "    \"\"\"Never closed, so never taken\n",
      "python");
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].name, "add");
  EXPECT_EQ(found[0].documentation, "Adds two numbers together.\n\nMore about it.");
  EXPECT_EQ(found[0].code,
            "def add(self, a,\n        b=(1, 2)):\n    if a:\n        return b\n\n    return a + b\n");
  EXPECT_EQ(found[1].name, "fourth");
  EXPECT_EQ(found[1].code, "def fourth(self):\n    return 1\n");
}

TEST(Functions, PythonSignaturesEndAtTheirColon) {
  const auto found = find_documented_functions(
      "def one(x): return x + 1\n"
      "def two(a={1: ')'}, b='#:'):  # a comment: (\n"
      "    \"\"\"Adds two to what it is given.\"\"\"\n"
      "    return a\n"
      "def f(a):  # noqa\n"
      "    return a\n"
      "class C:\n"
      "    \"\"\"A class that is no function.\"\"\"\n"
      "    x = 1\n"
      "def last(a,  # the first (of two\n"
      "         b) -> int:  # noqa: E501\n"
      "    \"\"\"Gives the last of its arguments.\"\"\"\n"
      "    return b\n",
      "python");
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].name, "two");
  EXPECT_EQ(found[0].code, "def two(a={1: ')'}, b='#:'):  # a comment: (\n    return a\n");
  EXPECT_EQ(found[1].name, "last");
  EXPECT_EQ(found[1].documentation, "Gives the last of its arguments.");
}

TEST(Functions, NestedOnesBelongToTheOneAround) {
  const auto found = find_documented_functions(
      "def outer(x):\n"
      "    \"\"\"Wraps what it is given.\"\"\"\n"
      "    def inner(y):\n"
      "        \"\"\"Helps the one around it.\"\"\"\n"
      "        return y\n"
      "    return inner\n"
      "def plain(x):\n"
      "    def inner(y):\n"
      "        \"\"\"Helps, and is found by itself.\"\"\"\n"
      "        return y\n"
      "    return inner\n"
      "def after(x):\n"
      "    \"\"\"Comes after those two functions.\"\"\"\n"
      "    return x\n",
      "python");
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].name, "outer");
  EXPECT_THAT(found[0].code, testing::EndsWith("    return inner\n"));
  EXPECT_EQ(found[1].documentation, "Helps, and is found by itself.");
  EXPECT_EQ(found[2].name, "after");
}

TEST(Functions, NamesOfGoAndRust) {
  const auto names = [](const char* source, const char* language) {
    std::vector<std::string> found;
    for (const auto& function : find_documented_functions(source, language)) found.push_back(function.name);
    return found;
  };
  EXPECT_THAT(names("// Len says how many there are.\n"
                    "func (s *Stack[T]) Len() int {\n  return len(s.items)\n}\n"
                    "// Push puts one more on top of it.\n"
                    "func Push[T any](s *Stack[T], x interface{}) (ok bool) {\n  return true\n}\n"
                    "// A function that has no name of its own.\n"
                    "func(x int) string {\n  return \"\"\n}\n",
                    "go"),
              ElementsAre("Len", "Push"));
  const char* rust =
      "/// Gives the longer one of two texts.\n"
      "#[inline]\n"
      "pub(crate) fn longest<'a>(x: &'a str, y: &'a str) -> &'a str { if x > y { x } else { y } }\n"
      "/// Counts the braces of a text, quoted ones.\n"
      "fn braces(text: &'static str) -> usize {\n"
      "    text.chars().filter(|c| *c == '{' || *c == '\\'').count()\n"
      "}\n"
      "/// Sums whatever comes out of it.\n"
      "fn sum(x: [u8; 4], y: impl Iterator<Item = u8>) -> u8 {\n    0\n}\n"
      "/// No function, but a structure.\n"
      "pub struct Text<'a> { part: &'a str }\n";
  EXPECT_THAT(names(rust, "rust"), ElementsAre("longest", "braces", "sum"));
  EXPECT_THAT(find_documented_functions(rust, "rust")[0].code, testing::EndsWith("else { y } }"));
}

TEST(Functions, CommentsBeforeBlocks) {
  const auto found = find_documented_functions(
      "/* A licence that stands at the top. */\n\n"
      "#include <x>\n"
      "// Adds two numbers,\n"
      "// both of them whole.\n"
      "static int add(int a, int b) {\n"
      "  const char* s = \"}\"; // }\n"
      "  if (a) { return b; }\n"
      "  return a + b;\n"
      "}\n"
      "/** A class is no function. */\n"
      "class X { int y(); };\n"
      "/**\n * Says hello to somebody.\n * @param name who\n */\n"
      "@Override(\"x\")\n"
      "public void hello(String name) throws E {\n  print('{');\n}\n"
      "// Never closed, so never taken.\nvoid open() {\n",
      "java");
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].name, "add");
  EXPECT_EQ(found[0].documentation, "Adds two numbers,\nboth of them whole.");
  EXPECT_THAT(found[0].code, testing::StartsWith("static int add("));
  EXPECT_THAT(found[0].code, testing::EndsWith("return a + b;\n}"));
  EXPECT_EQ(found[1].name, "hello");
  EXPECT_EQ(found[1].documentation, "Says hello to somebody.\n@param name who");
  EXPECT_TRUE(find_documented_functions("# text", "markdown").empty());
}

TEST(Functions, OddSourcesDoNoHarm) {
  for (const char* source : {"", "def", "def f(", "def f(:\n", "/*", "//", "/** x */", "\"", "'", "{", "}",
                             "def f():\n    \"\"\"", "// a\n{", "/* long enough text */ f(\n{ \"\\"})
    for (const char* language : {"python", "c", "go", "text"})
      EXPECT_TRUE(find_documented_functions(source, language).empty()) << source;
}

TEST(FunctionPairs, AreBalancedAndSplitByFunction) {
  const test::TemporaryFolder folder;
  for (int file = 0; file < 10; ++file) {
    std::string text;
    for (int i = 0; i < 30; ++i)
      text += fmt::format(
          "def f{0}_{1}(x):\n    \"\"\"Gives the number {0} and {1}.\"\"\"\n    def inner():\n"
          "        \"\"\"Helps with the number {0} and {1}.\"\"\"\n        return {0}{1}\n    return "
          "inner\n\n",
          file, i);
    folder.write(fmt::format("in/f{}.py", file), text);
  }
  folder.write("in/same.py", "def f1_1(x):\n    \"\"\"Gives the number 1 and 1.\"\"\"\n    return 7\n");
  CorpusOptions options;
  options.inputs = {folder / "in"};
  FileCorpus corpus(options);
  const FunctionPairsCounts counts =
      build_function_pairs(corpus, {.output = folder / "out", .held_out = 0.2, .copies = 3});
  EXPECT_EQ(counts.functions, 301);
  EXPECT_EQ(counts.duplicates, 1);
  EXPECT_EQ(counts.train / 6 + counts.validation / 2, 300);
  std::map<std::string, std::set<std::string>> documentation, texts;
  for (const char* split : {"train", "validation"}) {
    TableReader reader(folder / "out" / (std::string(split) + ".jsonl"),
                       {.columns = {"documentation", "code", "label"}});
    TableRow row;
    std::int64_t yes = 0, rows = 0;
    while (reader.next(row)) {
      ++rows;
      documentation[split].insert(*row.fields[0]);
      texts[split].insert({*row.fields[0], *row.fields[1]});
      const std::string name = row.fields[1]->substr(5, row.fields[1]->find('(') - 5);
      const auto under = name.find('_');
      const bool belongs = *row.fields[0] == fmt::format("Gives the number {} and {}.", name.substr(0, under),
                                                         name.substr(under + 1));
      EXPECT_EQ(belongs, *row.fields[2] == "yes") << *row.fields[0] << *row.fields[1];
      yes += belongs;
    }
    EXPECT_EQ(2 * yes, rows);
    EXPECT_EQ(rows, split == std::string("train") ? counts.train : counts.validation);
  }
  for (const auto& [split, other] : {std::pair("train", "validation"), std::pair("validation", "train")})
    for (const std::string& text : texts[split])
      for (const std::string& foreign : documentation[other]) EXPECT_THAT(text, Not(HasSubstr(foreign)));
  FileCorpus again(options);
  EXPECT_THROW(build_function_pairs(again, {.output = folder / "o", .held_out = 0}), Error);
}

}  // namespace
}  // namespace comera::data
