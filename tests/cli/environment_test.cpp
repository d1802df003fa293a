// What a command does when it cannot say what it was asked for, and about arguments that nothing can be made
// of.
#include <gmock/gmock.h>

#include "tests/cli/shell.h"
#include "tests/recipes/ranked_checkpoint.h"

namespace comera::test {
namespace {

using testing::HasSubstr;

class ProcessEnvironment : public testing::Test, protected Shell {
 protected:
  ProcessEnvironment() { setenv("R", folder_.write("r.toml", ranked_recipe()).c_str(), 1); }

  void expect_refusal(const Ended& ended, int code, const std::vector<std::string>& parts) {
    EXPECT_EQ(ended.code, code) << ended.errors;
    EXPECT_THAT(ended.errors, testing::StartsWith("comera: error: "));
    EXPECT_EQ(std::ranges::count(ended.errors, '\n'), 1) << ended.errors;
    for (const std::string& part : parts) EXPECT_THAT(ended.errors, HasSubstr(part));
    EXPECT_THAT(ended.errors, testing::Not(HasSubstr("unexpected")));
  }

  TemporaryFolder folder_;
};

// The commands that print most in one way or another.
const std::vector<std::string> printing = {"$C --help", "$C --version", "$C bench precision --help",
                                           "$C inspect $R", "$C inspect $R --explain-linears 64"};

TEST_F(ProcessEnvironment, OutputThatCannotBeWrittenIsAFailure) {
  for (const std::string& command : printing)
    expect_refusal(shell(command + " > /dev/full"), 1,
                   {"standard output could not be written: No space left on device"});
}

TEST_F(ProcessEnvironment, AReaderThatGoesAwayEndsACommandQuietly) {
  for (const std::string& command : printing) {
    const Ended ended = shell(command + " >&9");
    EXPECT_EQ(ended.code, 128 + SIGPIPE) << command;
    EXPECT_EQ(ended.errors, "");
    expect_refusal(shell("trap '' PIPE; " + command + " >&9"), 1, {"Broken pipe"});
  }
}

TEST_F(ProcessEnvironment, ClosedOutputIsOutputThatNobodyWants) {
  for (const std::string& command : printing) {
    const Ended ended = shell(command + " >&- 2>&- <&-");
    EXPECT_EQ(ended.code, 0) << command;
  }
}

// OpenMP binds the first thread before the program restarts itself.
TEST_F(ProcessEnvironment, ThreadsThatOpenMPBindsHaveAllCPUs) {
  const auto threads = [&](const std::string& bind) {
    return shell(
               "env -u GOMP_SPINCOUNT -u OMP_WAIT_POLICY -u OMP_NUM_THREADS -u OMP_PLACES -u "
               "GOMP_CPU_AFFINITY OMP_PROC_BIND=" +
               bind +
               " $C bench step quickstart --vocabulary 512 --tokens 128 --repeats 1 --only-tensorized | "
               "grep -o '[0-9]* threads'")
        .output;
  };
  const std::string unbound = threads("false");
  EXPECT_THAT(unbound, HasSubstr(" threads"));
  EXPECT_EQ(threads("true"), unbound);
}

TEST_F(ProcessEnvironment, AMessageThatCannotBeWrittenChangesNoExitCode) {
  for (const char* to : {"2> /dev/full", "2>&-", "2>&9"})
    EXPECT_EQ(shell(std::string("$C inspect absent.toml ") + to).code, 2) << to;
}

// Data made of standard input are used again for the same text only.
TEST_F(ProcessEnvironment, StandardInputIsComparedWithWhatDataWereMadeOf) {
  std::string lines;
  for (int i = 0; i < 400; ++i) lines += "def f" + std::to_string(i * 7919) + "(x):\n    return x\n\n";
  const std::string one = folder_.write("one", lines).string(),
                    other = folder_.write("other", lines + "# the end\n").string(),
                    run = (folder_ / "run").string();
  const auto pretrain = [&](const std::string& text) {
    return shell("cat '" + text +
                 "' | $C pretrain quickstart --device cpu --input - --vocabulary 400 --output '" + run +
                 "' --set phase.0.steps=1 --set phase.0.warmup_steps=0 --set phase.1.steps=1 --stop-after 1");
  };
  const Ended made = pretrain(one);
  ASSERT_EQ(made.code, 0) << made.errors;
  for (const auto& entry : std::filesystem::directory_iterator(run))
    if (entry.path().filename() != "data") std::filesystem::remove_all(entry.path());
  expect_refusal(pretrain(other), 2, {"was made from another input"});
  const Ended again = pretrain(one);
  EXPECT_EQ(again.code, 0) << again.errors;
  EXPECT_THAT(again.output + again.errors, HasSubstr("using the data made before"));
}

TEST_F(ProcessEnvironment, AMeasurementThatNobodyReadsEnds) {
  EXPECT_EQ(shell("$C bench precision --quick --repeats 1000000 >&9").code, 128 + SIGPIPE);
}

TEST_F(ProcessEnvironment, ArgumentsAreUtf8) {
  expect_refusal(shell("$C pretrain $R --output 'run-\xe9'"), 2,
                 {"--output: 'run-\\xe9' is not UTF-8", "rename the file or folder"});
  expect_refusal(shell("$C pretrain $R '--output=run-\xe9'"), 2, {"--output: "});
  expect_refusal(shell("$C inspect $R --set 'data.train=x\xe9'"), 2,
                 {"--set data.train: 'data.train=x\\xe9'"});
  expect_refusal(shell("$C inspect $R '--set=data.train=x\xe9'"), 2, {"--set data.train: "});
  expect_refusal(shell("$C inspect 'r\xff.toml'"), 2, {"'r\\xff.toml' is not UTF-8"});
  expect_refusal(shell("$C 'd\xe4ta'"), 2, {"'d\\xe4ta' is not UTF-8"});
}

TEST_F(ProcessEnvironment, NothingIsGivenEmpty) {
  for (const char* option : {"--output", "--from", "--set", "--device", "--stop-after"})
    expect_refusal(shell(std::string("$C pretrain $R ") + option + " ''"), 2, {option});
  for (const char* command :
       {"compact x.h5 --output ''", "compact --from-dense x.h5 --recipe '' --output y.h5",
        "tokenizer --input x --output ''", "tokenizer --input '' --output x", "pairs --input x --output ''",
        "data --input x --tokenizer '' --output y", "data --input x --tokenizer y --output ''",
        "eval x --tokenizer ''", "eval ''", "eval x --data ''", "predict x --input '' --output y.tsv",
        "embed x --input y --output ''", "inspect x --plot ''", "inspect ''", "bench precision --json ''",
        "bench step --checkpoint ''"})
    expect_refusal(shell(std::string("$C ") + command), 2, {"the value is empty; give one"});
}

TEST_F(ProcessEnvironment, OnlyAFileIsARecipe) {
  const std::string pipe = folder_ / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  folder_.write("large.toml", "");
  std::filesystem::resize_file(folder_ / "large.toml", std::uintmax_t{1} << 30);
  for (const std::string& command : {std::string("pretrain --output x "), std::string("bench step ")}) {
    const auto refused = [&](const std::string& recipe, const std::string& reason) {
      expect_refusal(shell("$C " + command + recipe), 2, {recipe + ": ", reason, "expected a recipe"});
    };
    refused("/dev/zero", "is not a regular file");
    refused(pipe, "a pipe, as <(...) makes one");
    refused(folder_.path(), "is a directory");
    refused(folder_ / "large.toml", "has 1073741824 bytes");
    refused(folder_ / "none.toml", "none.toml: no such file; expected a recipe");
    refused(folder_ / std::string(300, 'n'), "File name too long");
  }
}

TEST_F(ProcessEnvironment, ReplacingAskedForIsReplacingAFile) {
  std::filesystem::create_symlink("nowhere", folder_ / "link.tok");
  folder_.write("in.py", std::string(100, 'x'));
  const std::string input = folder_ / "in.py", link = folder_ / "link.tok";
  expect_refusal(shell("$C tokenizer --input " + input + " --output " + link), 2, {"already exists"});
  expect_refusal(shell("$C bench precision --tokens 16 --inputs 16 --outputs 16 --rank 4 --repeats 1 --json "
                       "/dev/null"),
                 1, {"/dev/null: is not a regular file"});
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

}  // namespace
}  // namespace comera::test
