// `pretrain --input`: from files to a trained model in one command.
#include <gmock/gmock.h>

#include <fstream>
#include <sstream>

#include "tests/support/temporary_folder.h"
#include "tests/training/training_fixture.h"

namespace comera::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class Input : public TrainingFixture {
 protected:
  Input() { fs::copy(corpus() / "source", source()); }
  fs::path source() const { return folder() / "source"; }
  fs::path run() const { return folder() / "run"; }
  static fs::path end_of(const fs::path& run) { return run / "checkpoints/step-00000012.h5"; }
  // Of the fixture's recipe without data.
  std::vector<std::string> command(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {
        "pretrain", write_recipe().string(), "--set",        "data.train=\"\"",
        "--set",    "data.validation=\"\"",  "--set",        "data.tokenizer=\"\"",
        "--input",  source().string(),       "--vocabulary", "400",
        "--output", run().string(),          "--held-out",   "0.2"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
};

TEST_F(Input, MakesWhatTheSingleCommandsMake) {
  const ProgramResult made = run_program(command());
  ASSERT_EQ(made.code, 0) << made.output;
  for (const char* part :
       {"bytes per token", "than its dense baseline's", "ms a step", "memory, MiB", "passes           short ",
        "over the training data", "if started now", "held-out loss"})
    EXPECT_THAT(made.output, HasSubstr(part));
  const std::string model = (folder() / "tok.model").string(), shards = (folder() / "shards").string();
  for (const auto& words : std::vector<std::vector<std::string>>{
           {"tokenizer", "--input", source().string(), "--vocabulary", "400", "--max-bytes", "400000",
            "--output", model},
           {"data", "--input", source().string(), "--tokenizer", model, "--held-out", "0.2", "--output",
            shards},
           {"pretrain", write_recipe().string(), "--set", "data.train=" + shards, "--set",
            "data.validation=" + shards, "--set", "data.tokenizer=" + model, "--output",
            (folder() / "other").string()}}) {
    const ProgramResult result = run_program(words);
    ASSERT_EQ(result.code, 0) << result.output;
  }
  expect_equal_checkpoints(end_of(run()), end_of(folder() / "other"));
}

TEST_F(Input, DataThatWereMadeAreTakenAgain) {
  ASSERT_EQ(run_program(command({"--stop-after", "4"})).code, 0);
  const auto made = fs::last_write_time(run() / "data/shards/train-00000.h5");
  expect(run_program(command()), 2, {"already holds a run"});
  expect(run_program(command({"--resume", "auto", "--languages", "python"})), 2,
         {"run/data: was made from another input", "continue its run with comera resume "});
  const ProgramResult resumed = run_program(command({"--resume", "auto"}));
  EXPECT_EQ(resumed.code, 0) << resumed.output;
  EXPECT_THAT(resumed.output, AllOf(HasSubstr("using the data made before in"), HasSubstr("held-out loss"),
                                    Not(HasSubstr("if started now"))));
  EXPECT_EQ(fs::last_write_time(run() / "data/shards/train-00000.h5"), made);
}

// Nobody is told to resume a run that has not begun.
TEST_F(Input, DataOfNoRunAreToBeRemoved) {
  ASSERT_EQ(run_program(command({"--stop-after", "4"})).code, 0);
  for (const fs::directory_entry& entry : fs::directory_iterator(run()))
    if (entry.path().filename() != "data") fs::remove_all(entry.path());
  const ProgramResult other = run_program(command({"--languages", "python"}));
  expect(other, 2, {"run/data: was made from another input", "remove this folder to make the data again"});
  EXPECT_THAT(other.output, Not(HasSubstr("resume")));
}

TEST_F(Input, ADeviceThatIsNotThereIsRefusedBeforeDataAreMade) {
  expect(run_program(command({"--device", "cuda:63"})), 2, {"cuda:63"});
  EXPECT_FALSE(fs::exists(run()));
}

// Lines of what a run prints about itself: a terminal of 80 columns shows tables as they are.
TEST_F(Input, TablesFitATerminal) {
  const ProgramResult result = run_program(command());
  ASSERT_EQ(result.code, 0) << result.output;
  std::istringstream lines(result.output);
  int tables = 0;
  for (std::string line; std::getline(lines, line);) {
    for (const char* part :
         {"phase  ", "short  ", "long  ", "memory, MiB", "held-out loss  ", "masked accuracy  ",
          "baselines  ", "peak memory  ", "speed  ", "parameters  "}) {
      if (!line.starts_with(part)) continue;
      EXPECT_LE(line.size(), 80U) << line;
      ++tables;
    }
  }
  EXPECT_GE(tables, 10) << result.output;
  EXPECT_THAT(result.output, testing::ContainsRegex("parameters       [0-9]+,[0-9][0-9][0-9], "));
}

TEST_F(Input, MovesWithTheRun) {
  ASSERT_EQ(run_program(command({"--stop-after", "4"})).code, 0);
  fs::rename(run(), folder() / "moved");
  fs::remove_all(source());
  const ProgramResult resumed = run_program({"resume", (folder() / "moved").string()});
  EXPECT_EQ(resumed.code, 0) << resumed.output;
  EXPECT_THAT(resumed.output, HasSubstr("held-out loss"));
  EXPECT_FALSE(fs::exists(run()));
}

// A command that was killed leaves a note that says so.
TEST_F(Input, DataThatWereNotFinishedAreMadeAnew) {
  ASSERT_EQ(run_program(command({"--stop-after", "4"})).code, 0);
  const fs::path note = run() / "data/input.json";
  std::string text = read_text(note);
  text.replace(text.find("\"complete\":true"), 15, "\"complete\":false");
  for (const fs::directory_entry& entry : fs::directory_iterator(run()))
    if (entry.path().filename() != "data") fs::remove_all(entry.path());
  std::ofstream(note) << text;
  fs::remove(run() / "data/shards/validation-00000.h5");
  std::ofstream(run() / "data/shards/train-00000.h5") << "half of it";
  const ProgramResult result = run_program(command());
  EXPECT_EQ(result.code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("held-out loss"));

  // No run has begun with them, so that they may be of another input now.
  for (const fs::directory_entry& entry : fs::directory_iterator(run()))
    if (entry.path().filename() != "data") fs::remove_all(entry.path());
  std::ofstream(note) << text;
  const ProgramResult other = run_program(command({"--languages", "python"}));
  EXPECT_EQ(other.code, 0) << other.output;
  EXPECT_THAT(read_text(note), HasSubstr("\"languages\":[\"python\"]"));

  std::ofstream(note) << "{";
  expect(run_program(command({"--resume", "auto"})), 1, {"input.json: is damaged; remove"});
}

TEST_F(Input, HoursAreTheWholeRuns) {
  const ProgramResult result = run_program(command({"--hours", "0.0005"}));
  EXPECT_EQ(result.code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("run.max_hours = 0.0005"));
  EXPECT_THAT(read_text(run() / "recipe.toml"), HasSubstr("max_hours = 0.0005"));
}

TEST_F(Input, ATrialWritesNothing) {
  const ProgramResult trial = run_program(command({"--dry-run"}));
  EXPECT_EQ(trial.code, 0) << trial.output;
  for (const char* part : {"  python", "tokens           about 0.0", "ms a step",
                           "over the training data, about", "nothing was written"})
    EXPECT_THAT(trial.output, HasSubstr(part));
  EXPECT_FALSE(fs::exists(run()));
  const ProgramResult known =
      run_program({"pretrain", write_recipe().string(), "--dry-run", "--output", run().string()});
  EXPECT_EQ(known.code, 0) << known.output;
  EXPECT_THAT(known.output, HasSubstr("over the training data\n"));
  EXPECT_FALSE(fs::exists(run()));
  expect(run_program({"pretrain", write_recipe().string(), "--dry-run", "--set", "data.train=\"\""}), 2,
         {"data.train is empty"});
  expect(run_program({"pretrain", write_recipe().string(), "--dry-run", "--set", "data.train=gone"}), 2,
         {"gone: no such folder of shards"});
}

// What the run would refuse, the trial refuses.
TEST_F(Input, ATrialRefusesWhatTheRunRefuses) {
  for (const std::string_view trial : {"--dry-run", "--resume"}) {
    const std::vector<std::string> more = trial == "--resume" ? std::vector<std::string>{"--resume", "auto"}
                                                              : std::vector<std::string>{"--dry-run"};
    const auto refused = [&](std::vector<std::string> words, const std::string& sentence) {
      words.insert(words.end(), more.begin(), more.end());
      expect(run_program(words), 2, {sentence});
    };
    refused({"pretrain", write_recipe().string(), "--input", source().string(), "--output", run().string()},
            "--input and the recipe's data.train both name");
    std::vector<std::string> words = command();
    words.back() = "2";
    refused(words, "2 is not a fraction from 0 on and below 1");
    EXPECT_FALSE(fs::exists(run()));
  }
}

TEST_F(Input, FewDocumentsLeaveSomethingToHoldOut) {
  fs::create_directory(folder() / "few");
  for (int i = 0; i < 4; ++i)
    std::ofstream(folder() / fmt::format("few/file{}.py", i))
        << read_text(*fs::directory_iterator(source())) << i;
  std::vector<std::string> words = command();
  words[9] = (folder() / "few").string();
  words.back() = "0.00001";
  const ProgramResult result = run_program(words);
  EXPECT_EQ(result.code, 0) << result.output;
  EXPECT_THAT(result.output, testing::ContainsRegex("validation +1 "));
  EXPECT_THAT(result.output, HasSubstr("held-out loss  "));
}

TEST_F(Input, ItsTokenizerMayBeGiven) {
  const std::string model = (corpus() / "tok.model").string();
  std::vector<std::string> words = command();
  words[7] = "data.tokenizer=" + model;
  const ProgramResult result = run_program(words);
  EXPECT_EQ(result.code, 0) << result.output;
  EXPECT_FALSE(fs::exists(run() / "data/tokenizer.model"));
  EXPECT_EQ(read_text(run() / "tokenizer.model"), read_text(model));
}

TEST_F(Input, WhatCannotBeIsRefusedAndLeavesNothing) {
  expect(run_program({"pretrain", write_recipe().string(), "--input", source().string()}), 2,
         {"--input and the recipe's data.train both name"});
  expect(run_program(command({"--find-rate"})), 2, {"--find-rate"});
  fs::create_directories(run() / "data");
  std::ofstream(run() / "data/thesis.txt") << "mine";
  expect(run_program(command()), 2, {"run/data: exists and does not belong to a run"});
  EXPECT_EQ(read_text(run() / "data/thesis.txt"), "mine");
  fs::remove_all(run());

  std::vector<std::string> words = command();
  words[9] = (folder() / "empty").string();
  fs::create_directories(words[9]);
  expect(run_program(words), 1, {"no document of the input was kept"});
  words[9] = (folder() / "gone").string();
  expect(run_program(words), 2, {"gone"});
  EXPECT_FALSE(fs::exists(run()));

  ASSERT_EQ(
      run_program({"pretrain", write_recipe().string(), "--output", run().string(), "--stop-after", "2"})
          .code,
      0);
  expect(run_program(command({"--resume", "auto"})), 2, {"was not started with --input"});
}

}  // namespace
}  // namespace comera::test
