#include "data/tasks/task_columns.h"

#include <gmock/gmock.h>

#include <set>

#include "data/tables/examples.h"
#include "tests/data/corpus/small_corpus.h"
#include "tests/support/temporary_folder.h"

namespace comera::data {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class TaskColumnsTest : public testing::Test {
 protected:
  TaskColumns find(const std::string& name, const std::string& content, const TaskColumns& given = {}) {
    return find_task_columns(folder_.write(name, content), TableFormat::automatic, true, given);
  }
  std::string refusal(const std::string& name, const std::string& content, const TaskColumns& given = {}) {
    return test::error_of([&] { find(name, content, given); });
  }
  // A header and rows of it, in which %d is the number of the row.
  static std::string table(const std::string& header, const std::vector<std::string>& rows, int times = 10) {
    std::string text = header + "\n";
    for (int i = 0; i < times; ++i)
      for (const std::string& row : rows) {
        std::string line = row;
        for (auto at = line.find("%d"); at != line.npos; at = line.find("%d"))
          line.replace(at, 2, std::to_string(text.size()));
        text += line + "\n";
      }
    return text;
  }

  test::TemporaryFolder folder_;
};

TEST_F(TaskColumnsTest, AreFoundByTheirNames) {
  struct Case {
    std::string header, row_a, row_b;
    std::vector<std::string> text;
    std::string label;
    TaskKind kind = TaskKind::classification;
  };
  const std::vector<Case> cases = {
      {"sentence\tlabel", "it is good\t1", "it is bad\t0", {"sentence"}, "label"},
      {"index\tsentence1\tsentence2\tlabel",
       "1\ta b\tc\tyes",
       "2\ta\tc d\tno",
       {"sentence1", "sentence2"},
       "label"},
      {"label\thypothesis\tpremise", "a\tx\ty", "b\tx\ty", {"premise", "hypothesis"}, "label"},
      {"Quality\t#1 ID\t#2 ID\t#1 String\t#2 String",
       "1\t7\t8\tx\ty",
       "0\t7\t8\tx\ty",
       {"#1 String", "#2 String"},
       "Quality"},
      {"id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate",
       "1\t2\t3\tx\ty\t0",
       "1\t2\t3\tx\ty\t1",
       {"question1", "question2"},
       "is_duplicate"},
      {"title\tbody\tstars", "x\ty\t5", "x\ty\t1", {"title", "body"}, "stars"},
      {"text_b\ttext_a\tscore",
       "x\ty\t5.0",
       "x\ty\t1.5",
       {"text_a", "text_b"},
       "score",
       TaskKind::regression},
      {"ID\tReview\tSentiment", "1\tx\tpos", "2\ty\tneg", {"Review"}, "Sentiment"},
  };
  for (const Case& c : cases) {
    const TaskColumns found = find("t.tsv", c.header + "\n" + c.row_a + "\n" + c.row_b + "\n");
    EXPECT_EQ(found.text, c.text) << c.header;
    EXPECT_EQ(found.label, c.label) << c.header;
    EXPECT_EQ(found.kind, c.kind) << c.header;
    EXPECT_EQ(found.rows, 2) << c.header;
    EXPECT_EQ(found.labels, 2) << c.header;
  }
}

TEST_F(TaskColumnsTest, AreFoundByTheirContents) {
  const TaskColumns found =
      find("t.csv",
           table("number,what they wrote,verdict,place",
                 {"%d,it was %d times as good,fine,town %d of five", "%d,no more than %d of it,poor,%d"}));
  EXPECT_THAT(found.text, ElementsAre("what they wrote"));
  EXPECT_EQ(found.label, "verdict");
  const TaskColumns scored =
      find("s.csv", table("who,wrote,gave", {"a%d,one of the %d words,1.5", "b%d,or %d of more,2"}));
  EXPECT_THAT(scored.text, ElementsAre("wrote"));
  EXPECT_EQ(scored.label, "gave");
  EXPECT_EQ(scored.kind, TaskKind::regression);
}

TEST_F(TaskColumnsTest, HaveNamesOfAnyLanguage) {
  const TaskColumns found = find(
      "t.tsv", table("номер\tотзыв\tоценка", {"%d\tчетыре слова и %d\tда", "%d\tдругие слова и %d\tнет"}));
  EXPECT_THAT(found.text, ElementsAre("отзыв"));
  EXPECT_EQ(found.label, "оценка");
}

TEST_F(TaskColumnsTest, OfJsonMayBeAnything) {
  const TaskColumns found = find("t.jsonl",
                                 "{\"meta\": {\"a\": 1}, \"text\": \"x\", \"label\": true}\n"
                                 "{\"meta\": [1], \"text\": \"y\", \"label\": false}\n");
  EXPECT_THAT(found.text, ElementsAre("text"));
  EXPECT_EQ(found.labels, 2);
  const std::string lists =
      "{\"text\": \"x\", \"labels\": [\"a\", \"b\"]}\n{\"text\": \"y\", \"labels\": [3]}\n";
  EXPECT_EQ(find("l.jsonl", lists).kind, TaskKind::multi_label);
  EXPECT_EQ(find("l.jsonl", lists).labels, 3);
  EXPECT_THAT(refusal("l.jsonl", lists, {.kind = TaskKind::classification}),
              HasSubstr("column 'labels' has lists in 2 rows"));
  const TaskColumns columns = find("c.tsv", "text\ta\tb\nx\t1\t0\ny\t0\t0\n", {.label_columns = {"b", "a"}});
  EXPECT_EQ(columns.kind, TaskKind::multi_label);
  EXPECT_EQ(columns.labels, 2);
  EXPECT_THAT(refusal("c.tsv", "text\ta\tb\nx\t1\t0\ny\t2\t0\n", {.label_columns = {"a", "b"}}),
              HasSubstr("column 'a' has other values than 0 and 1"));
}

TEST_F(TaskColumnsTest, ThatAreNotPlainAreAskedFor) {
  EXPECT_THAT(refusal("e.tsv", ""), HasSubstr("e.tsv: has no columns"));
  EXPECT_THAT(refusal("t.tsv", "text\tlabel\tscore\nx\ta\t1\n"),
              AllOf(HasSubstr("'label', 'score' may all be the label"),
                    HasSubstr("columns text, label, score"), HasSubstr("give --label COLUMN")));
  EXPECT_THAT(refusal("t.tsv", "text\tcomment\tlabel\nx\ty\ta\n"),
              AllOf(HasSubstr("'text', 'comment' may all be the text"), HasSubstr("--text FIRST,SECOND")));
  EXPECT_THAT(refusal("t.tsv", "text\tother\nx\ty\n"), HasSubstr("no column looks like a label"));
  EXPECT_THAT(refusal("t.tsv", "word\tlabel\nx\ta\n"), HasSubstr("no column looks like free text"));
  EXPECT_THAT(refusal("t.csv", "text;label\nx;a\n"),
              HasSubstr("semicolons seem to be between its fields: 'text;label'"));
  EXPECT_THAT(refusal("t.csv", "text;score\nx;1,5\ny, z;2,5\n"),
              HasSubstr("give --set task.format=semicolon_csv if so; numbers need a decimal point"));
  EXPECT_THAT(refusal("t.csv", "text\tlabel\nx\ta\n"),
              AllOf(HasSubstr("only the column 'text\\tlabel'"), HasSubstr("--set task.format=tsv")));
  EXPECT_THAT(refusal("t.tsv", "text,label\nx,a\n"), HasSubstr("--set task.format=csv"));
  EXPECT_THAT(refusal("t.txt", "text,label\nx,a\n"),
              AllOf(HasSubstr("lines are read as texts"), HasSubstr("--set task.format=csv")));
  // Its header is its first row.
  EXPECT_THAT(refusal("t.tsv", table("gj04\t1\t\tthey like it", {"gj04\t1\t\ta %d", "gj%d\t0\t*\tthe %d"})),
              HasSubstr("(and --set task.header=false if its first line is no header)"));
  std::string amounts = "text\tvotes\n";
  for (int i = 0; i < 30; ++i) amounts += fmt::format("x\t{}\n", i);
  EXPECT_THAT(refusal("t.tsv", amounts, {.label = "votes"}),
              AllOf(HasSubstr("30 different whole numbers"), HasSubstr("--set task.kind=regression")));
  EXPECT_EQ(find("t.tsv", amounts, {.label = "votes", .kind = TaskKind::regression}).rows, 30);
}

TEST_F(TaskColumnsTest, NumbersThatAreTextAreNotTakenForClasses) {
  std::string text = "text\tscore\n";
  for (int i = 0; i < 30; ++i) text += fmt::format("x\t{},{:02}\n", i % 7, 3 * i);
  const auto advice = AllOf(HasSubstr("column 'score' has values such as '0,00'"), HasSubstr("such as 4.51"));
  EXPECT_THAT(refusal("t.tsv", text), AllOf(advice, HasSubstr("--set task.kind=multi_label")));
  EXPECT_THAT(refusal("t.tsv", text, {.kind = TaskKind::regression}), advice);
  EXPECT_EQ(find("t.tsv", text, {.kind = TaskKind::multi_label}).labels, 37);
  // A few among numbers are left out like other rows without a score.
  std::string mostly = "text\tscore\nx\t1,096\n";
  for (int i = 0; i < 30; ++i) mostly += fmt::format("x\t{}.5\n", i);
  EXPECT_EQ(find("t.tsv", mostly, {.kind = TaskKind::regression}).rows, 30);
}

TEST_F(TaskColumnsTest, ClassesThatMayBeMeantOtherwiseAreNamed) {
  const auto notes = [&](const std::vector<std::string>& labels) {
    std::string text = "text\tlabel\n";
    for (const std::string& label : labels) text += "x\t" + label + "\n";
    return find("t.tsv", text).notes;
  };
  EXPECT_THAT(notes({"yes", "no"}), testing::IsEmpty());
  EXPECT_THAT(notes({"yes", "Yes", "no"}), ElementsAre(HasSubstr("'Yes', 'yes' are different classes")));
  EXPECT_THAT(notes({"yes", "no", "NaN"}), ElementsAre(HasSubstr("'NaN' is a class like others")));
  EXPECT_THAT(notes({"a,b", "a", "b", "b,c", "c"}),
              ElementsAre(AllOf(HasSubstr("'a,b' is one class"), HasSubstr("task.separator=\",\""))));
  EXPECT_THAT(notes({"1", "2", "1,2"}),
              ElementsAre(HasSubstr("'1,2' is a class"), HasSubstr("'1,2' is one class; if it is several")));
  EXPECT_THAT(notes({"New York, NY", "Boston, MA"}), testing::IsEmpty());
  EXPECT_THAT(notes({"10%", "25 %", "1,096"}),
              ElementsAre(AllOf(HasSubstr("'10%' is a class"), HasSubstr("decimal point"))));
  // Of scores, it is what is missing.
  const TaskColumns scores = find("t.tsv", "text\tscore\nx\t1.5\ny\tNaN\nz\t2\n");
  EXPECT_EQ(scores.kind, TaskKind::regression);
  EXPECT_THAT(refusal("t.tsv", "text\tlabel\nx\ta\ny\tb\n", {.kind = TaskKind::regression}),
              HasSubstr("column 'label' has no numbers"));
}

TEST_F(TaskColumnsTest, OfTextAloneAreFoundTheSameWay) {
  const auto text_of = [&](const std::string& content, const std::vector<std::string>& others) {
    return find_text_columns(folder_.write("t.tsv", content), TableFormat::automatic, true, others);
  };
  EXPECT_THAT(text_of("id\treview\tstars\n1\tx\t5\n", {}), ElementsAre("review"));
  EXPECT_THAT(text_of("word\nx\n", {}), ElementsAre("word")) << "the only column";
  EXPECT_THAT(text_of("text\ttitle\nx\ty\n", {"title"}), ElementsAre("text"));
}

// It would be lost without a word.
TEST_F(TaskColumnsTest, AFirstLineOfTextIsNoName) {
  const std::string flute = "a man is playing a flute", texts = flute + "\na dog runs on the grass\n";
  const auto said = [&](const std::string& name, const std::string& content, const std::string& column,
                        bool header = true) {
    const std::filesystem::path file = folder_.write(name, content);
    return test::error_of([&] { refuse_text_as_name(file, TableFormat::automatic, header, column); });
  };
  const auto is_refused = AllOf(HasSubstr("seems to be a text and not a name: '" + flute + "'"),
                                HasSubstr("--set task.header=false"), HasSubstr("--text COLUMN"));
  EXPECT_THAT(said("t.tsv", texts, flute), is_refused);
  for (const char* others : {"3.5", "1,5", "yes", "yes \tyes ", "", "http://x.org"}) {
    std::string content;
    for (int i = 0; i < 10; ++i) content += flute + "\t" + others + "\n";
    EXPECT_THAT(said("t.tsv", content, flute), is_refused) << others;
  }
  EXPECT_THAT(said("t.csv", "\"well, it is a good one\"\n\"no, it is not so\"\n", "well, it is a good one"),
              HasSubstr("--set 'task.text=[\"COLUMN\"]'"));
  EXPECT_THAT(test::error_of([&] {
                find_text_columns(folder_.write("t.tsv", texts), TableFormat::automatic, true, {});
              }),
              is_refused);
  // A question that a form asks is a name, if another column has one; members of JSON always are.
  const std::string asked = "what did you like best";
  EXPECT_EQ(said("t.tsv", table("when\t" + asked, {"%d\tit was good fun %d"}), asked), "");
  EXPECT_EQ(said("t.jsonl", "{\"" + asked + "\": \"it was good fun\"}\n", asked), "");
  EXPECT_EQ(said("t.tsv", texts, "1", false), "");
  EXPECT_THAT(find_text_columns(folder_.write("t.tsv", texts), TableFormat::automatic, false, {}),
              ElementsAre("1"));
  // Of names that stand twice none is the text.
  EXPECT_THAT(test::error_of([&] {
                find_text_columns(folder_.write("t.tsv", "a\ta\nx\ty\n"), TableFormat::automatic, true, {});
              }),
              HasSubstr("no column looks like free text"));
}

// Texts that belong together need no label.
TEST_F(TaskColumnsTest, OfContrastiveTasksAreTexts) {
  const TaskColumns contrastive{.kind = TaskKind::contrastive};
  const auto texts = [&](const std::string& header, const std::string& row) {
    return find("t.tsv", header + "\n" + row + "\n", contrastive).text;
  };
  EXPECT_THAT(texts("negative\tanchor\tid\tpositive", "n\ta\t1\tp"),
              ElementsAre("anchor", "positive", "negative"));
  EXPECT_THAT(texts("query\tpos", "q\tp"), ElementsAre("query", "pos"));
  EXPECT_THAT(texts("code\tdocumentation\tname\tlabel", "c\td\tn\tyes"),
              ElementsAre("documentation", "code"));
  EXPECT_THAT(texts("sentence1\tsentence2\tscore", "a\tb\t1"), ElementsAre("sentence1", "sentence2"));
  EXPECT_THAT(texts("text", "t"), ElementsAre("text"));
  const TaskColumns found =
      find("t.tsv", "anchor\tpositive\tlabel\nx\ty\tz\n", {.label = "label", .kind = TaskKind::contrastive});
  EXPECT_EQ(found.rows, 1);
  EXPECT_TRUE(found.unused.empty());
  EXPECT_THAT(refusal("t.tsv", "first\tsecond\nx\ty\n", contrastive), HasSubstr("give --text COLUMN"));
}

TEST_F(TaskColumnsTest, ThatAreGivenMustBeThere) {
  EXPECT_EQ(find("t.tsv", "a\tb\tc\nx\ty\tz\n", {.text = {"c"}, .label = "a"}).label, "a");
  EXPECT_THAT(refusal("t.tsv", "a\tb\nx\ty\n", {.text = {"c"}, .label = "a"}),
              HasSubstr("has no such column; it has a, b"));
  EXPECT_THAT(refusal("t.tsv", "a\tb\nx\ty\n", {.text = {"a"}, .label = "c"}), HasSubstr("--label c"));
}

// A hard negative, which is read in training only, moves no row to the other side.
TEST(HeldOut, TriplesAreToldApartByTheirPairs) {
  const test::TemporaryFolder folder;
  const Tokenizer tokenizer = small_tokenizer();
  std::string rows = "anchor\tpositive\tnegative\n";
  for (int i = 0; i < 200; ++i) rows += fmt::format("a {}\tb\tc {}\n", i, 7 * i % 31);
  const auto file = folder.write("t.tsv", rows);
  const auto texts = [&](const std::vector<std::string>& columns, TaskPart part) {
    const Task task{.name = "t", .kind = TaskKind::contrastive, .text = columns, .held_out = 0.3};
    const Examples examples = Examples::read(task, {{"t", file, part}}, tokenizer, false, 50);
    std::set<std::string> found;
    for (std::int64_t i = 0; i < examples.count(); ++i) found.insert(tokenizer.decode(examples.text(i, 0)));
    return found;
  };
  const auto learned = texts({"anchor", "positive", "negative"}, TaskPart::training);
  const auto held_out = texts({"anchor", "positive"}, TaskPart::held_out);
  EXPECT_EQ(learned.size() + held_out.size(), 200U);
  for (const std::string& text : held_out) EXPECT_FALSE(learned.contains(text)) << text;
}

// By their texts: equal texts are on one side, in any order, and each row is on one.
TEST(HeldOut, RowsAreChosenByTheirTexts) {
  const test::TemporaryFolder folder;
  const Tokenizer tokenizer = small_tokenizer();
  std::string rows, reversed;
  for (int i = 0; i < 200; ++i) {
    const std::string row = fmt::format("a {}\tb\t{}\n", i % 100, i < 100 ? "no" : "yes");
    rows += row, reversed = row + reversed;
  }
  Task task{.name = "t", .text = {"a", "b"}, .label = "y", .labels = {"no", "yes"}, .held_out = 0.3};
  const auto part_of = [&](const std::string& text, TaskPart part) {
    const auto file = folder.write("t.tsv", "a\tb\ty\n" + text);
    const Examples examples = Examples::read(task, {{"t", file, part}}, tokenizer, true, 50);
    std::multiset<std::string> texts;
    for (std::int64_t i = 0; i < examples.count(); ++i) texts.insert(tokenizer.decode(examples.text(i, 0)));
    return texts;
  };
  const auto training = part_of(rows, TaskPart::training), held_out = part_of(rows, TaskPart::held_out);
  EXPECT_EQ(training.size() + held_out.size(), 200);
  EXPECT_NEAR(static_cast<double>(held_out.size()), 60, 30);
  for (const std::string& text : held_out) {
    EXPECT_EQ(held_out.count(text), 2) << text;
    EXPECT_EQ(training.count(text), 0) << text;
  }
  EXPECT_EQ(part_of(reversed, TaskPart::held_out), held_out);
}

}  // namespace
}  // namespace comera::data
