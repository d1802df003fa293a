// A training run loses nothing when what is around it fails: its terminal, its output, and what stands in its
// folder.
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "tests/cli/shell.h"
#include "tests/training/training_fixture.h"

namespace comera::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::IsEmpty;

class TrainingEnvironment : public TrainingFixture, protected Shell {
 protected:
  TrainingEnvironment() {
    setenv("R", write_recipe().c_str(), 1);
    setenv("RUN", run().c_str(), 1);
  }

  fs::path run() const { return folder() / "run"; }
  fs::path last() const { return run() / "checkpoints/step-00000012.h5"; }
  std::string treasure() const { return read_text(folder() / "treasure"); }
  // A link to a file of the user's, where the run makes one of its own.
  void link_to_treasure(const std::string& name) const {
    std::ofstream(folder() / "treasure") << "the user's";
    fs::create_directories((run() / name).parent_path());
    fs::create_symlink(folder() / "treasure", run() / name);
  }
  void expect_refusal(const Ended& ended, int code, const std::vector<std::string>& parts) {
    EXPECT_EQ(ended.code, code) << ended.errors;
    const std::size_t at = ended.errors.find("comera: error: ");
    ASSERT_NE(at, std::string::npos) << ended.errors;
    EXPECT_EQ(std::ranges::count(ended.errors.substr(at), '\n'), 1) << ended.errors;
    for (const std::string& part : parts) EXPECT_THAT(ended.errors, HasSubstr(part));
    EXPECT_THAT(ended.errors, testing::Not(HasSubstr("unexpected")));
  }
};

TEST_F(TrainingEnvironment, MessagesThatCannotBeWrittenAreDropped) {
  ASSERT_EQ(shell("$C pretrain $R").code, 0);
  const fs::path whole = folder() / "whole.h5";
  fs::rename(last(), whole);
  for (const char* to : {"2> /dev/full", "2>&-", "2>&9", ">&- 2>&- <&-"}) {
    SCOPED_TRACE(to);
    fs::remove_all(run());
    EXPECT_EQ(shell(std::string("$C pretrain $R ") + to).code, 0);
    ASSERT_TRUE(fs::exists(last()));
    expect_equal_checkpoints(last(), whole);
    EXPECT_THAT(read_text(run() / "lock"), testing::MatchesRegex("[0-9]+\n"));
  }
}

TEST_F(TrainingEnvironment, ASummaryThatCannotBePrintedIsSaidAndTheRunIsSaved) {
  expect_refusal(shell("$C pretrain $R > /dev/full"), 1,
                 {"standard output could not be written: No space left on device"});
  EXPECT_TRUE(fs::exists(last()));
  fs::remove_all(run());
  EXPECT_EQ(shell("$C pretrain $R >&9 2>&9").code, 128 + SIGPIPE);
  EXPECT_TRUE(fs::exists(last()));
  // Nor is it the end of those that read a run.
  expect_refusal(shell("$C eval $RUN --json > /dev/full"), 1, {"standard output could not be written"});
  EXPECT_EQ(shell("$C eval $RUN --json 2> /dev/full").code, 0);
  expect_refusal(shell("$C inspect $RUN > /dev/full"), 1, {"standard output could not be written"});
  expect_refusal(shell("$C compact $RUN --output $RUN/copy.h5 > /dev/full"), 1,
                 {"the files that the command wrote are whole"});
  EXPECT_EQ(read_text(run() / "copy.h5"), read_text(last()));
}

// A checkpoint is larger than that, and so the write fails rather than the process ends.
TEST_F(TrainingEnvironment, ALimitOnTheSizeOfFilesIsASentence) {
  expect_refusal(shell("ulimit -f 64; $C pretrain $R"), 1, {".comera-tmp: could not", "File too large"});
  EXPECT_THAT(left_overs(run()), IsEmpty());
}

// libgomp would end the program by itself.
TEST_F(TrainingEnvironment, MoreThreadsThanTheSystemGivesAreASentence) {
  expect_refusal(shell("ulimit -v 2000000; $C pretrain $R --set run.threads=1000"), 1,
                 {"1000 threads are more than the system gives", "choose fewer"});
}

// A run that goes on until it is stopped, and has saved something.
class EndlessRun {
 public:
  EndlessRun(const fs::path& checkpoints, const std::string& before) : checkpoints_(checkpoints) {
    fs::remove_all(checkpoints_.parent_path());
    const std::string command =
        before + "exec \"$C\" pretrain \"$R\" --set phase.0.steps=1000000 2>&9 > /dev/null";
    process_ = fork();
    if (process_ == 0) {
      execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
      _exit(127);
    }
    wait_for_steps(1);
  }

  void send(int number) const { kill(process_, number); }
  // So many steps more, or until it has ended.
  void wait_for_steps(std::int64_t steps) {
    const std::int64_t goal = newest() + steps;
    while (newest() < goal && waitpid(process_, &status_, WNOHANG) == 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    ended_ = newest() < goal;
  }
  bool has_ended() const { return ended_; }
  // 128 + the signal that ended it.
  int code() {
    if (!ended_) waitpid(process_, &status_, 0);
    return WIFEXITED(status_) ? WEXITSTATUS(status_) : 128 + WTERMSIG(status_);
  }

 private:
  std::int64_t newest() const {
    const std::vector<std::int64_t> steps = checkpoint_steps(checkpoints_);
    return steps.empty() ? 0 : steps.back();
  }

  fs::path checkpoints_;
  pid_t process_ = 0;
  int status_ = 0;
  bool ended_ = false;
};

// Its messages go nowhere by then.
TEST_F(TrainingEnvironment, AClosedTerminalSavesAndStops) {
  const fs::path checkpoints = run() / "checkpoints";
  EndlessRun stopped(checkpoints, "");
  // By the terminal, by its shell, and maybe once more.
  for (int i = 0; i < 3; ++i) stopped.send(SIGHUP);
  EXPECT_EQ(stopped.code(), 0);
  EXPECT_TRUE(find_latest(checkpoints, ResumeMode::newest));

  EndlessRun under_nohup(checkpoints, "trap '' HUP; ");
  under_nohup.send(SIGHUP);
  under_nohup.wait_for_steps(30);
  EXPECT_FALSE(under_nohup.has_ended());
  under_nohup.send(SIGTERM);
  EXPECT_EQ(under_nohup.code(), 0);
}

// What a run writes down must be readable text, wherever it comes from: here the folder that it was begun in.
TEST_F(TrainingEnvironment, NoNameThatIsNotUtf8GetsIntoARecipe) {
  ASSERT_EQ(shell("$C pretrain $R").code, 0);
  fs::create_directory(folder() / "caf\xe9");
  std::string text = recipe_text();
  const std::size_t line = text.find("tokenizer = ");
  text.erase(line, text.find('\n', line) - line);
  std::ofstream(folder() / "without.toml") << text;
  expect_refusal(shell("cd " + (folder() / "caf\xe9").string() +
                       " && mv $RUN first && $C pretrain ../without.toml --from first --output next"),
                 2, {"data.tokenizer is not UTF-8"});
  EXPECT_FALSE(fs::exists(folder() / "caf\xe9/next"));
}

TEST_F(TrainingEnvironment, NothingIsWrittenThroughALink) {
  for (const char* name : {"metrics.jsonl", "lock"}) {
    link_to_treasure(name);
    expect_refusal(shell("$C pretrain $R"), 1, {std::string(name) + ": is a symbolic link", "remove it"});
    EXPECT_EQ(treasure(), "the user's");
    fs::remove_all(run());
  }
  // Nobody but a run makes files of these names, and this one has not begun.
  for (const char* name : {"tokenizer.model", "best.h5", "checkpoints/latest"}) {
    link_to_treasure(name);
    expect_refusal(shell("$C pretrain $R"), 2, {"choose another --output"});
    EXPECT_EQ(treasure(), "the user's");
    fs::remove_all(run());
  }
  // Names of an earlier version, and of a user.
  for (const char* name : {"tokenizer.model.tmp", "recipe.toml.tmp", "checkpoints/step-00000003.h5.tmp"})
    link_to_treasure(name);
  ASSERT_EQ(shell("$C pretrain $R").code, 0);
  EXPECT_EQ(treasure(), "the user's");
  EXPECT_TRUE(fs::is_symlink(run() / "tokenizer.model.tmp"));
}

TEST_F(TrainingEnvironment, WhatAKilledRunLeftIsRemovedAndNothingElse) {
  ASSERT_EQ(shell("$C pretrain $R --stop-after 4").code, 0);
  std::ofstream(run() / "mine.tsv.tmp") << "the user's";
  for (const char* file :
       {"best.h5", "recipe.toml", "tokenizer.model", "nonfinite.h5", "checkpoints/step-00000004.h5"}) {
    const fs::path path = run() / file;
    std::ofstream(path.parent_path() / ("." + path.filename().string() + ".1.comera-tmp")) << "half";
  }
  EXPECT_EQ(left_overs(run()).size(), 5);
  ASSERT_EQ(shell("$C pretrain $R --resume always").code, 0);
  EXPECT_THAT(left_overs(run()), IsEmpty());
  EXPECT_EQ(read_text(run() / "mine.tsv.tmp"), "the user's");
}

// A run that cannot begin, or begins beside them, leaves a user's own files as they were.
TEST_F(TrainingEnvironment, FilesOfTheUserInTheOutputFolderStay) {
  fs::create_directories(run() / "processes");
  std::ofstream(run() / "processes/mine.txt") << "the user's";
  expect_refusal(shell("$C pretrain $R --set data.train=nowhere"), 2, {"nowhere"});
  EXPECT_EQ(read_text(run() / "processes/mine.txt"), "the user's");
  std::ofstream(run() / "best.h5") << "the user's";
  expect_refusal(shell("$C pretrain $R"), 2, {"already holds a run"});
  EXPECT_EQ(read_text(run() / "best.h5"), "the user's");
  fs::remove(run() / "best.h5");
  fs::copy_file(write_recipe(), run() / "recipe.toml");
  expect_refusal(shell("$C pretrain $RUN/recipe.toml --output $RUN --resume auto"), 2,
                 {"recipe.toml: does not belong to a run", "move it"});
  EXPECT_EQ(read_text(run() / "recipe.toml"), recipe_text());
}

TEST_F(TrainingEnvironment, FoldersThatCannotBeAreSentences) {
  fs::create_symlink("loop", folder() / "loop");
  expect_refusal(shell("$C pretrain $R --output " + (folder() / "loop/run").string()), 1,
                 {"Too many levels of symbolic links"});
  expect_refusal(shell("$C pretrain $R --output " + (folder() / std::string(256, 'n')).string()), 1,
                 {"File name too long"});
  expect_refusal(shell("$C inspect " + (folder() / std::string(256, 'n')).string()), 1,
                 {"File name too long"});
  expect_refusal(shell("$C inspect " + (folder() / "loop").string()), 1, {"loop: "});
  expect_refusal(shell("$C pretrain $R --resume auto --from " + (folder() / "loop").string()), 2, {"loop: "});
  // The current folder is gone.
  ASSERT_EQ(shell("$C pretrain $R").code, 0);
  expect_refusal(shell("mkdir $RUN/gone && cd $RUN/gone && rmdir $RUN/gone && "
                       "$C pretrain $R --output $RUN --resume auto --from first"),
                 2, {"was started from random weights, not --from first"});
}

TEST_F(TrainingEnvironment, OnlyAFileIsATokenizer) {
  expect_refusal(shell("$C pretrain $R --set data.tokenizer=/dev/zero"), 1,
                 {"/dev/zero: is not a regular file", "expected a tokenizer"});
  EXPECT_FALSE(fs::exists(run()));
}

}  // namespace
}  // namespace comera::test
