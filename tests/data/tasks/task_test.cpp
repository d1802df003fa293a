#include "data/tasks/task.h"

#include <gmock/gmock.h>

#include <cmath>
#include <map>
#include <set>

#include "data/corpus/function_pairs.h"
#include "data/corpus/functions.h"
#include "data/tables/examples.h"
#include "data/tasks/scores.h"
#include "tests/data/corpus/small_corpus.h"
#include "tests/support/temporary_folder.h"

namespace comera::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

const Tokenizer& tokenizer() {
  static const Tokenizer made = small_tokenizer();
  return made;
}

TEST(Glue, EveryTaskHasItsColumns) {
  for (const std::string& name : glue_tasks()) {
    const Task task = glue_task(name, "folder");
    EXPECT_EQ(task.name, name);
    EXPECT_FALSE(task.text.empty());
    EXPECT_FALSE(task.label.empty());
    EXPECT_EQ(task.labels.empty(), name == "stsb");
    EXPECT_EQ(task.validation.size(), name == "mnli" ? 2u : 1u);
  }
  EXPECT_THROW(glue_task("mnly", "folder"), UsageError);
}

Task small_task() { return {.name = "small", .text = {"a", "b"}, .label = "y", .labels = {"no", "yes"}}; }

TEST(Examples, ReadsPairsAndCountsWhatItLeavesOut) {
  const test::TemporaryFolder folder;
  const auto file = folder.write(
      "t.tsv", "y\tb\ta\nyes\tsecond\tfirst\nmaybe\tx\ty\nno\t\tonly\nno\t\t\nyes\tx\nno\tb\ta\n");
  const Examples examples = Examples::read(small_task(), {{"t", file}}, tokenizer(), true, 50);
  ASSERT_EQ(examples.count(), 3);
  EXPECT_EQ(tokenizer().decode(examples.text(0, 0)), "first");
  EXPECT_EQ(tokenizer().decode(examples.text(0, 1)), "second");
  EXPECT_EQ(examples.label(0), 1);
  EXPECT_EQ(examples.line(2), 7);
  EXPECT_TRUE(examples.text(1, 1).empty());
  EXPECT_THAT(examples.class_counts(2), ElementsAre(2, 1));
  ASSERT_EQ(examples.reports().size(), 1u);
  EXPECT_THAT(
      examples.reports()[0],
      HasSubstr("3 rows were left out: no text: 1 (first in line 5), unknown label ('maybe'): 1 (first in "
                "line 3), wrong number of fields: 1 (first in line 6)"));
}

TEST(Examples, NothingLeftIsAnError) {
  const test::TemporaryFolder folder;
  const auto file = folder.write("t.tsv", "a\tb\ty\nx\ty\tmaybe\n");
  EXPECT_THAT(test::error_of([&] {
                Examples::read(small_task(), {{"t", file}}, tokenizer(), true, 50);
              }),
              testing::AllOf(HasSubstr("no example is left"), HasSubstr("unknown label ('maybe')"),
                             HasSubstr("the labels are no, yes")));
}

TEST(Examples, BlankLinesOfATextAreSaid) {
  const test::TemporaryFolder folder;
  const auto file = folder.write("t.txt", "one\n\ntwo\n\nthree\n");
  const Task task{.name = "t", .text = {"text"}};
  const Examples examples = Examples::read(task, {{"t", file}}, tokenizer(), false, 50);
  EXPECT_EQ(examples.count(), 3);
  EXPECT_EQ(examples.line(2), 5);
  EXPECT_THAT(examples.reports(),
              ElementsAre(HasSubstr("2 blank lines were left out (the first is line 2)")));
}

TEST(Examples, UnknownLabelsAreOneReason) {
  const test::TemporaryFolder folder;
  std::string text = "a\tb\ty\nx\ty\tno\n";
  for (int i = 0; i < 1000; ++i) text += fmt::format("x\ty\tlabel {}\n", i / 2);
  const Examples examples =
      Examples::read(small_task(), {{"t", folder.write("t.tsv", text)}}, tokenizer(), true, 50);
  ASSERT_EQ(examples.reports().size(), 1u);
  EXPECT_THAT(
      examples.reports()[0],
      testing::EndsWith("1000 rows were left out: unknown label ('label 0', 'label 1', 'label 2'): 1000 "
                        "(first in line 3)"));
}

TEST(Examples, ScoresMustBeNumbers) {
  const test::TemporaryFolder folder;
  const auto file = folder.write("t.csv", "s,score\none,2.5\ntwo,-\nthree,nan\nfour, 1e1 \nfive,1e400\n");
  const Task task{.name = "r",
                  .kind = TaskKind::regression,
                  .metric = TaskMetric::spearman,
                  .text = {"s"},
                  .label = "score"};
  const Examples examples = Examples::read(task, {{"t", file}}, tokenizer(), true, 50);
  ASSERT_EQ(examples.count(), 2);
  EXPECT_EQ(examples.score(0), 2.5F);
  EXPECT_EQ(examples.score(1), 10.F);
  EXPECT_THAT(examples.reports()[0], HasSubstr("score is not a number: 3"));
}

TEST(Examples, MayHaveSeveralLabels) {
  const test::TemporaryFolder folder;
  Task task{.name = "t", .kind = TaskKind::multi_label, .text = {"a"}, .label = "y", .separator = ";"};
  const auto lists = folder.write("l.jsonl",
                                  R"({"a": ["two", "words"], "y": ["science fiction", "drama"]}
{"a": "x", "y": []}
{"a": "x", "y": ["western"]}
{"a": "x", "y": "drama; comic"}
)");
  const auto cells = folder.write("c.csv", "a,y\nx,science fiction; drama\nx,\nx,western\nx,drama;comic\n");
  for (const auto& file : {lists, cells}) {
    task.labels = find_labels(task, {{"t", file}});
    EXPECT_THAT(task.labels, ElementsAre("comic", "drama", "science fiction", "western"));
    task.labels = {"drama", "science fiction", "comic"};
    const Examples examples = Examples::read(task, {{"t", file}}, tokenizer(), true, 50);
    ASSERT_EQ(examples.count(), 3) << file;
    EXPECT_THAT(examples.targets(0), ElementsAre(1, 1, 0));
    EXPECT_THAT(examples.targets(1), ElementsAre(0, 0, 0));
    EXPECT_THAT(examples.targets(2), ElementsAre(1, 0, 1));
    EXPECT_THAT(examples.class_counts(3), ElementsAre(2, 1, 1));
    EXPECT_THAT(examples.reports()[0], HasSubstr("unknown label ('western'): 1"));
    if (file == lists) {
      EXPECT_EQ(tokenizer().decode(examples.text(0, 0)), "two words");
    }
  }
  // Or a column for each.
  task.label.clear(), task.labels = {"p", "q"};
  const auto columns = folder.write("q.tsv", "q\ta\tp\n1\tx\t0\nfalse\tx\tTrue\n2\tx\t1\n");
  const Examples examples = Examples::read(task, {{"t", columns}}, tokenizer(), true, 50);
  ASSERT_EQ(examples.count(), 2);
  EXPECT_THAT(examples.targets(0), ElementsAre(0, 1));
  EXPECT_THAT(examples.targets(1), ElementsAre(1, 0));
  EXPECT_THAT(examples.reports()[0], HasSubstr("has neither 0 nor 1: 1 (first in line 4)"));
}

TEST(Examples, LabelsAreFoundAndSorted) {
  const test::TemporaryFolder folder;
  Task task = small_task();
  const auto words = folder.write("w.tsv", "a\tb\ty\n1\t1\tpos\n1\t1\tneg\n1\t1\tneutral\n");
  EXPECT_THAT(find_labels(task, {{"w", words}}), ElementsAre("neg", "neutral", "pos"));
  const auto numbers = folder.write("n.tsv", "a\tb\ty\n1\t1\t10\n1\t1\t9\n1\t1\t-1\n");
  EXPECT_THAT(find_labels(task, {{"n", numbers}}), ElementsAre("-1", "9", "10"));
  const auto one = folder.write("o.tsv", "a\tb\ty\n1\t1\t10\n");
  EXPECT_THAT(test::error_of([&] { find_labels(task, {{"o", one}}); }), HasSubstr("1 different labels"));
}

TEST(Examples, JsonNumbersThatAreEqualAreOneClass) {
  const test::TemporaryFolder folder;
  std::string rows;
  for (const char* label : {"1", "0.0", "1.0", "1e0", "-0", "2.50", "[\"1\"]", "NaN"})
    rows += "{\"a\": \"u\", \"b\": \"v\", \"y\": " + std::string(label) + "}\n";
  const auto file = folder.write("n.jsonl", rows);
  Task task = small_task();
  EXPECT_THAT(find_labels(task, {{"n", file}}), ElementsAre("0", "1", "2.5"));
  // However the classes are written.
  for (const std::vector<std::string>& labels :
       {std::vector<std::string>{"0", "1", "2.5"}, std::vector<std::string>{"0.0", "1.0", "2.50"}}) {
    task.labels = labels;
    const Examples examples = Examples::read(task, {{"n", file}}, tokenizer(), true, 50);
    EXPECT_THAT(examples.class_counts(3), ElementsAre(2, 3, 1));
    EXPECT_THAT(examples.reports()[0], AllOf(HasSubstr("label is a list: 1"), HasSubstr("null field: 1")));
  }
  const auto text = folder.write("t.tsv", "a\tb\ty\nu\tv\t1\nu\tv\t1.0\n");
  EXPECT_THAT(find_labels(task, {{"t", text}}), ElementsAre("1", "1.0"));
}

TEST(Examples, ListsOfWordsAreTexts) {
  const test::TemporaryFolder folder;
  const auto words = folder.write("w.jsonl", "{\"a\": [\"x\", \"y\"], \"b\": \"z\"}\n");
  const auto text = folder.write("t.jsonl", "{\"a\": \"x y\", \"b\": \"z\"}\n");
  EXPECT_EQ(Examples::read(small_task(), {{"w", words}}, tokenizer(), false, 50).fingerprint(),
            Examples::read(small_task(), {{"t", text}}, tokenizer(), false, 50).fingerprint());
}

TEST(Examples, FingerprintFollowsContentAndOrder) {
  const test::TemporaryFolder folder;
  const auto print = [&](const char* text) {
    return Examples::read(small_task(), {{"t", folder.write("t.tsv", text)}}, tokenizer(), true, 50)
        .fingerprint();
  };
  const std::string one = print("a\tb\ty\nx\ty\tno\nz\tw\tyes\n");
  EXPECT_EQ(one, print("b\ta\ty\ny\tx\tno\nw\tz\tyes\n"));
  EXPECT_NE(one, print("a\tb\ty\nz\tw\tyes\nx\ty\tno\n"));
  EXPECT_NE(one, print("a\tb\ty\nx\ty\tno\nz\tw\tno\n"));
}

// The longer text loses tokens first; both keep as much as fits.
TEST(ExampleSamples, TruncatesTheLongerText) {
  const test::TemporaryFolder folder;
  const auto file = folder.write("t.tsv",
                                 "a\tb\ty\n"
                                 "q w e r t y u i o p a s d f\tz x\tno\n"
                                 "q w\tz x c v b n m a s d f g h j\tno\n"
                                 "q w e r t y u i\tz x c v b n m a\tno\n"
                                 "q\t\tyes\n");
  const Examples examples = Examples::read(small_task(), {{"t", file}}, tokenizer(), true, 100);
  const std::int64_t length = 14;
  ExampleSamples samples(examples, length, 2);
  const auto lengths = samples.lengths();
  Sample sample;
  for (std::int64_t i = 0; i < examples.count(); ++i) {
    samples.read(i, sample);
    ASSERT_EQ(static_cast<std::int64_t>(sample.ids.size()), lengths[i]);
    ASSERT_LE(lengths[i], length);
    EXPECT_EQ(sample.ids.front(), tokenizer().special().cls);
    EXPECT_EQ(sample.ids.back(), tokenizer().special().separator);
    const auto first = std::ranges::count(sample.type_ids, 0),
               second = std::ranges::count(sample.type_ids, 1);
    if (i < 3) {
      EXPECT_EQ(lengths[i], length) << "all room is used";
      const auto kept_first = first - 2, kept_second = second - 1;
      const auto all_first = static_cast<std::int64_t>(examples.text(i, 0).size());
      const auto all_second = static_cast<std::int64_t>(examples.text(i, 1).size());
      if (kept_first < all_first && kept_second < all_second)
        EXPECT_LE(std::abs(kept_first - kept_second), 1);
      else if (kept_first < all_first)
        EXPECT_GE(kept_first, kept_second);
      else
        EXPECT_GE(kept_second, kept_first);
    } else {
      EXPECT_EQ(second, 0) << "one text only";
    }
  }
  EXPECT_EQ(samples.truncated(), 3);
  ExampleSamples separate(examples, length, 2, true);
  EXPECT_EQ(separate.sequences_per_sample(), 2);
  for (std::int64_t i = 0; i < examples.count(); ++i) {
    separate.read(i, sample);
    ASSERT_EQ(static_cast<std::int64_t>(sample.ids.size()), separate.lengths()[i]);
    const auto first =
        std::min<std::int64_t>(static_cast<std::int64_t>(examples.text(i, 0).size()), length - 2);
    EXPECT_EQ(sample.second, first + 2);
    EXPECT_EQ(sample.ids[sample.second - 1], tokenizer().special().separator);
    EXPECT_EQ(sample.ids[sample.second], tokenizer().special().cls);
    EXPECT_EQ(std::ranges::count(sample.type_ids, 0), static_cast<std::ptrdiff_t>(sample.ids.size()));
  }
  ExampleSamples one_type(examples, length, 1);
  one_type.read(0, sample);
  EXPECT_EQ(std::ranges::count(sample.type_ids, 0), static_cast<std::ptrdiff_t>(sample.ids.size()));
  EXPECT_THROW(ExampleSamples(examples, 4, 2), UsageError);
}

// The values were worked out apart from the code, with Python's fractions and 40 digits of its decimals:
// Matthews' correlation as that of the one-hot codes, 13/6 over 11/3.
TEST(Scores, Classification) {
  const std::vector<double> logits = {2, 0, 0, 0, 1, 0, 0, 0, 3, 1, 0, 0, 0, 1, 2, 1, 0, 0};
  const std::vector<std::int32_t> labels = {0, 1, 2, 1, 1, 0};
  const TaskScores scores = classification_scores(logits, labels, 3);
  EXPECT_EQ(scores.examples, 6);
  EXPECT_DOUBLE_EQ(scores.accuracy, 0.6666666666666667);
  EXPECT_NEAR(scores.standard_error, 0.19245008972987526, 1e-15);
  EXPECT_DOUBLE_EQ(scores.majority, 0.5);
  EXPECT_NEAR(scores.f1, 0.6555555555555556, 1e-12);  // of the classes: 4/5, 1/2, 2/3
  EXPECT_NEAR(scores.matthews, 0.5909090909090909, 1e-12);
  EXPECT_NEAR(scores.loss, 0.7327346381472298, 1e-12);
}

// The example of scikit-learn's f1_score: F1 of the labels 2/3, 1 and 2/3; micro 0.8; accuracy_score 2/3.
TEST(Scores, SeveralLabels) {
  const std::vector<float> wanted = {0, 0, 0, 1, 1, 1, 0, 1, 1};
  const std::vector<double> logits = {-1, -2, -1, 3, 1, 2, 1, 1, -1};
  const TaskScores scores = multi_label_scores(logits, wanted, 3);
  EXPECT_EQ(scores.examples, 3);
  EXPECT_NEAR(scores.macro_f1, 7 / 9., 1e-12);
  EXPECT_NEAR(scores.micro_f1, 0.8, 1e-12);
  EXPECT_NEAR(scores.accuracy, 2 / 3., 1e-12);
  double loss = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const double p = 1 / (1 + std::exp(-logits[i]));
    loss -= wanted[i] > 0 ? std::log(p) : std::log(1 - p);
  }
  EXPECT_NEAR(scores.loss, loss / 9, 1e-12);
  // A label that is nowhere has an F1 of 0 (zero_division=0).
  EXPECT_NEAR(multi_label_scores(std::vector<double>{1, -1}, std::vector<float>{1, 0}, 2).macro_f1, 0.5,
              1e-12);
}

TEST(Scores, TwoClassesAndConstantPredictions) {
  // Predictions 1 1 1 0, labels 1 0 1 1: precision 2/3, recall 2/3.
  const TaskScores two = classification_scores(std::vector<double>{0, 1, 0, 1, 0, 1, 1, 0},
                                               std::vector<std::int32_t>{1, 0, 1, 1}, 2);
  EXPECT_NEAR(two.f1, 2.0 / 3, 1e-12);
  EXPECT_NEAR(two.matthews, -1.0 / 3, 1e-12);
  const TaskScores constant =
      classification_scores(std::vector<double>{1, 0, 1, 0, 1, 0}, std::vector<std::int32_t>{0, 1, 0}, 2);
  EXPECT_EQ(constant.matthews, 0);
  EXPECT_EQ(constant.f1, 0);
}

TEST(Scores, Regression) {
  const TaskScores scores =
      regression_scores(std::vector<double>{1, 2, 3, 4, 5}, std::vector<float>{2, 1, 4, 3, 5});
  EXPECT_NEAR(scores.pearson, 0.8, 1e-12);
  EXPECT_NEAR(scores.spearman, 0.8, 1e-12);
  EXPECT_NEAR(scores.loss, 0.8, 1e-12);
  // Equal values share their mean rank: ranks 1.5 1.5 3 against 1 2 3.
  const TaskScores ties = regression_scores(std::vector<double>{7, 7, 9}, std::vector<float>{1, 2, 3});
  EXPECT_NEAR(ties.spearman, 1.5 / std::sqrt(1.5 * 2), 1e-12);
  EXPECT_EQ(regression_scores(std::vector<double>{1, 1}, std::vector<float>{1, 2}).pearson, 0);
}

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
