#include "data/function_hashes.h"

#include <gmock/gmock.h>

#include <string>

namespace comera::data {
namespace {

const std::string python = R"(import os

class Counter:
    def add(self, amount, factor=1):
        """Adds."""
        # A comment.
        for index in range(amount):
            self.total += index * factor
            if self.total > self.limit:
                raise ValueError("too much: # %d" % self.total)
        return self.total

    def short(self): return 1

async def fetch(
    address,
    timeout,
):
    async with session.get(address, timeout=timeout) as response:
        body = await response.text()
        return body.splitlines()[0].strip(), response.status
)";

TEST(FunctionHashes, FindsPythonsFunctionsButNotTheShortest) {
  EXPECT_EQ(function_hashes(python, "python").size(), 2);
  EXPECT_TRUE(function_hashes("total = 1\n", "python").empty());
}

// Comments, docstrings, white space and the position in the file do not count; everything else does.
TEST(FunctionHashes, SeeTheSameFunctionInAnotherLayout) {
  const std::string moved = R"(
def add(self, amount, factor=1):
  '''Adds, in other words.'''
  for index in range(amount):

      self.total += index*factor  # here too
      if self.total > self.limit:
        raise ValueError("too much: # %d" % self.total)
  return self.total
)";
  const auto all = function_hashes(python, "python"), one = function_hashes(moved, "python");
  ASSERT_EQ(one.size(), 1);
  EXPECT_THAT(all, testing::Contains(one[0]));
  std::string changed = moved;
  changed.replace(changed.find("factor=1"), 8, "factor=2");
  EXPECT_THAT(all, testing::Not(testing::Contains(function_hashes(changed, "python").at(0))));
  std::string other_text = moved;
  other_text.replace(other_text.find("# %d"), 4, "# %i");
  EXPECT_THAT(all, testing::Not(testing::Contains(function_hashes(other_text, "python").at(0))));
}

TEST(FunctionHashes, FindsRubys) {
  const std::string ruby = R"(module Tools
  def self.fetch(address, timeout = 10)
    response = connection.get(address, timeout: timeout)
    raise Failed, "no answer from #{address}" unless response.success?
    response.body
  end

  def other(value)
    value.map { |entry| entry.to_s.strip }.reject(&:empty?).sort_by { |entry| entry.length }.first(10)
  end
end
)";
  EXPECT_EQ(function_hashes(ruby, "ruby").size(), 2);
}

TEST(FunctionHashes, FindsBlocksBehindParentheses) {
  const std::string java = R"(
/* A class (of no use). */
public class Counter {
  // Adds (much).
  @Override
  public int add(int amount, int factor) throws Failed {
    for (int i = 0; i < amount; ++i) {
      total += i * factor;
      if (total > limit) { throw new Failed("too much } " + total); }
    }
    return total;
  }
  int get() { return total; }
}
)";
  const auto found = function_hashes(java, "java");
  ASSERT_EQ(found.size(), 1) << "the getter is too short, and the class has no parentheses of its own";
  const std::string alone = R"(@Override public int add(int amount, int factor) throws Failed {
    for (int i = 0; i < amount; ++i) { total += i * factor; /* and */
      if (total > limit) { throw new Failed("too much } " + total); } }
    return total; })";
  EXPECT_THAT(function_hashes(alone, "java"), testing::ElementsAre(found[0]));
}

// A construct that contains functions is not a function, whatever parentheses it has.
TEST(FunctionHashes, LooksIntoClassesModulesAndWrappers) {
  const std::string one =
      "int add(int a, int b) { return first_of_many(a) + second_of_many(b) + third_of_many(a, b) + "
      "fourth_of_them(a - b, 10); }";
  const std::string two =
      "int sub(int a, int b) { return first_of_many(a) - second_of_many(b) - third_of_many(a, b) - "
      "fourth_of_them(a + b, 10); }";
  const auto plain = function_hashes(one + "\n" + two, "java");
  ASSERT_EQ(plain.size(), 2);
  const auto within = [&](const std::string& before, const std::string& after, const char* language) {
    return function_hashes(before + "\n  " + one + "\n  " + two + after, language);
  };
  EXPECT_EQ(within("class A {", "}", "java"), plain);
  EXPECT_EQ(within("@SuppressWarnings({\"unchecked\", \"a)b\"})\npublic class A {", "}", "java"), plain);
  EXPECT_EQ(within("@Generated(\"x\") @Other public final class A extends B {", "}", "java"), plain);
  EXPECT_EQ(within("#[cfg(test)]\nmod tests {", "}", "rust"), plain);
  EXPECT_EQ(within("class __attribute__((visibility(\"default\"))) A {", "};", "cpp"), plain);
  EXPECT_EQ(within("(function (root) {", "})(this);", "javascript"), plain);
  EXPECT_EQ(within("define('name', ['other'], function (other) {", "});", "javascript"), plain);
  EXPECT_TRUE(
      function_hashes("#[derive(Debug, Clone)] struct A { " + std::string(120, 'a') + ": i32 }", "rust")
          .empty());
  // A struct is what C's functions return.
  EXPECT_EQ(function_hashes("static struct node *find(struct list *list) {" + one.substr(24), "c").size(), 1);
}

TEST(FunctionHashes, ABlockThatTwoBranchesOpenHidesNothing) {
  const std::string rest =
      "\nint add(int a, int b) { return first_of_many(a) + second_of_many(b) + third_of_many(a, b) + "
      "fourth_of_them(a - b, 100); }\n";
  const std::string broken = "#ifdef A\nint f(int a) {\n#else\nint f(long a) {\n#endif\n  return a;\n}\n";
  EXPECT_THAT(function_hashes(broken + rest, "c"), testing::Contains(function_hashes(rest, "c").at(0)));
}

TEST(FunctionHashes, FindsFunctionsOfOtherLanguagesWithBraces) {
  const std::string body =
      "{ first = second + third; log(\"a rather long text that makes the function long enough to count, "
      "yes\"); }";
  for (const auto& [language, head] :
       {std::pair{"c", "static int add(int a, int b)\n"},
        {"cpp", "template <class T>\nint Counter<T>::add(int a = 3) const noexcept "},
        {"go", "func (c *Counter) Add(a int) (int, error) "},
        {"javascript", "const add = async (a, b = 1) => "},
        {"typescript", "export function add(a: number): number "},
        {"php", "public function add(int $a): int\n"},
        {"rust", "pub fn add<'a>(a: &'a str) -> i32 "}})
    EXPECT_EQ(function_hashes(std::string(head) + body, language).size(), 1) << language;
  EXPECT_TRUE(function_hashes("if (a) " + body, "c").empty());
  EXPECT_TRUE(function_hashes("void f() " + body, "markdown").empty());
  EXPECT_TRUE(function_hashes("void f() { never closed", "c").empty());
}

}  // namespace
}  // namespace comera::data
