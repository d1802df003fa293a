// predict and eval of imported classifiers, as the program runs them.
#include <gmock/gmock.h>

#include "tests/exchange/folder_copy.h"
#include "tests/training/training_fixture.h"

namespace comera::exchange {
namespace {

using testing::HasSubstr;

class ImportedTask : public testing::Test {
 protected:
  ImportedTask() {
    import_model(models / "bert_classes", {}, model());
    folder_.write("pairs.jsonl", "{\"x\": \"a bcd\", \"y\": \"hi cab\"}\n{\"x\": \"b\", \"y\": \"j\"}\n");
    folder_.write("texts.txt", "a bcd\nhi cab\n");
    folder_.write("labelled.csv", "text,label\na bcd,no\nhi cab,yes\nj,maybe\n");
    folder_.write("other.tsv", "text\tgold\na bcd\tno\nhi cab\tyes\n");
  }
  std::string in(const std::string& name) const { return (folder_ / name).string(); }
  std::filesystem::path model() const { return folder_ / "model.h5"; }
  test::ProgramResult predict(const std::string& input, const std::vector<std::string>& sets = {}) const {
    return run({"predict", "--output", in("out.tsv"), "--overwrite"}, input, sets);
  }
  test::ProgramResult eval(const std::string& input, const std::vector<std::string>& sets = {}) const {
    return run({"eval"}, input, sets);
  }

 private:
  test::ProgramResult run(std::vector<std::string> arguments, const std::string& input,
                          const std::vector<std::string>& sets) const {
    arguments.insert(arguments.end(), {model().string(), "--input", in(input), "--device", "cpu"});
    for (const std::string& set : sets) arguments.insert(arguments.end(), {"--set", set});
    return test::run_program(arguments);
  }
  test::TemporaryFolder folder_;
};

TEST_F(ImportedTask, PredictsWithNothingButItsColumns) {
  const auto pairs = predict("pairs.jsonl", {R"(task.text=["x", "y"])"});
  EXPECT_EQ(pairs.code, 0) << pairs.output;
  EXPECT_THAT(test::read_text(in("out.tsv")), HasSubstr("line\tlabel\tno\tmaybe\tyes\n1\t"));
  const auto texts = predict("texts.txt");
  EXPECT_EQ(texts.code, 0) << texts.output;
  EXPECT_THAT(texts.output, HasSubstr("using column 'text' as the text"));
}

TEST_F(ImportedTask, AsksForColumnsThatCannotBeTold) {
  const auto result = predict("pairs.jsonl");
  EXPECT_NE(result.code, 0);
  EXPECT_THAT(result.output, HasSubstr("has the columns x, y"));
  EXPECT_THAT(result.output, HasSubstr("--text FIRST,SECOND"));
}

TEST_F(ImportedTask, TakesNoWordThatNamesNothing) {
  const std::string text = R"(task.text=["x", "y"])";
  const auto label = predict("pairs.jsonl", {text, "task.label=anything"});
  EXPECT_NE(label.code, 0);
  EXPECT_THAT(label.output, HasSubstr("task.label = anything: "));
  EXPECT_THAT(label.output, HasSubstr("has no such column (it has x, y)"));
  const auto train = predict("pairs.jsonl", {text, "task.train=anything"});
  EXPECT_NE(train.code, 0);
  EXPECT_THAT(train.output, HasSubstr("task.train = anything: no such file"));
  EXPECT_NE(predict("pairs.jsonl", {"task.text=[\"x\", \"z\"]"}).code, 0);
  EXPECT_NE(eval("labelled.csv", {"task.label=anything"}).code, 0);
}

TEST_F(ImportedTask, IsScoredOnLabelledTables) {
  const auto guessed = eval("labelled.csv");
  EXPECT_EQ(guessed.code, 0) << guessed.output;
  EXPECT_THAT(guessed.output, HasSubstr("using column 'label' as the label"));
  EXPECT_THAT(guessed.output, HasSubstr("using column 'text' as the text"));
  EXPECT_THAT(guessed.output, HasSubstr("accuracy"));
  const auto asked = eval("other.tsv");
  EXPECT_NE(asked.code, 0);
  EXPECT_THAT(asked.output, HasSubstr("has the columns text, gold"));
  EXPECT_THAT(asked.output, HasSubstr("--label COLUMN"));
  const auto told = eval("other.tsv", {"task.label=gold"});
  EXPECT_EQ(told.code, 0) << told.output;
}

}  // namespace
}  // namespace comera::exchange
