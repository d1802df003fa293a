#include "data/tasks/task.h"

#include <gmock/gmock.h>

#include "data/tables/examples.h"
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
  // Another share to hold out would not help.
  std::string many = "a\tb\ty\n";
  for (int i = 0; i < 20; ++i) many += fmt::format("x{}\ty\tmaybe\n", i);
  const auto rows = folder.write("many.tsv", many);
  EXPECT_THAT(test::error_of([&] {
                Task part = small_task();
                part.held_out = 0.5;
                Examples::read(part, {{"t", rows, TaskPart::training}}, tokenizer(), true, 50);
              }),
              testing::AllOf(HasSubstr("unknown label ('maybe')"), Not(HasSubstr("task.held_out is"))));
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

// They are ordinary text here, and not to transformers.
TEST(Examples, NamesOfSpecialPiecesAreSaid) {
  const test::TemporaryFolder folder;
  const auto file = folder.write("t.txt", "one\ntwo [SEP] words\n[CLS] three [MASK]\n");
  const Task task{.name = "t", .text = {"text"}};
  const Examples examples = Examples::read(task, {{"t", file}}, tokenizer(), false, 50);
  EXPECT_THAT(examples.notes(), ElementsAre(HasSubstr("2 texts with [SEP] or another special piece's name")));
  for (const std::int32_t id : examples.text(2, 0)) EXPECT_FALSE(tokenizer().special().contains(id));
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
  EXPECT_THAT(examples.reports()[0], HasSubstr("(write 0 where there is nothing): 1 (first in line 4)"));
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

}  // namespace
}  // namespace comera::data
