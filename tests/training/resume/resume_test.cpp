#include <fmt/format.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <random>
#include <thread>

#include "tests/training/adapters.h"
#include "tests/training/training_fixture.h"

namespace comera::test {
namespace {

namespace fs = std::filesystem;

class Resume : public TrainingFixture {
 protected:
  TrainingOutcome train(const std::string& run, TrainingOptions options = {},
                        const std::vector<std::string>& overrides = {}) {
    std::FILE* null = std::fopen("/dev/null", "w");
    options.output = null;
    TrainingOutcome outcome = TrainingRun(recipe(run, overrides), options).run();
    std::fclose(null);
    return outcome;
  }
  std::string metrics(const std::string& run) const {
    std::ifstream file(folder() / run / "metrics.jsonl");
    std::string text, line;
    while (std::getline(file, line)) {
      // Timings differ from run to run.
      for (const char* key : {"\"tokens_per_second\":", "\"ms_per_step\":"}) {
        const std::size_t at = line.find(key);
        if (at != std::string::npos) line.erase(at, line.find(',', at) - at);
      }
      text += line + "\n";
    }
    return text;
  }
};

// In the middle of the first phase, at its end, and within the second; by Ctrl-C's path and by
// --stop-after's.
TEST_F(Resume, ContinuesToTheBit) {
  const TrainingOutcome whole = train("whole");
  EXPECT_TRUE(whole.finished);
  for (const int stop : {2, 7, 10}) {
    const std::string run = fmt::format("stopped-{}", stop);
    TrainingOptions options;
    bool asked = false;
    if (stop == 2) {
      options.after_step = [&asked](std::int64_t step) { asked = step == 2; };
      options.stop_requested = [&asked] { return asked; };
    } else {
      options.stop_after = stop;
    }
    const TrainingOutcome first = train(run, options);
    EXPECT_FALSE(first.finished);
    EXPECT_EQ(first.step, stop);
    const TrainingOutcome second = train(run, {.mode = RunMode::resume});
    EXPECT_TRUE(second.finished);
    expect_equal_checkpoints(whole.checkpoint, second.checkpoint);
    EXPECT_EQ(metrics("whole"), metrics(run));
    EXPECT_EQ(whole.evaluation->loss, second.evaluation->loss);
  }
}

TEST_F(Resume, ByMuonTooContinuesToTheBitOnAnyNumberOfThreads) {
  const std::string rates = "{cores=0.02, embedding=5e-3, gates=1e-3, other=1e-3}";
  const std::vector<std::string> muon = {"optim.name=muon", "phase.0.learning_rate=" + rates,
                                         "phase.1.learning_rate=" + rates};
  const auto with_threads = [&](const std::string& threads) {
    std::vector<std::string> overrides = muon;
    overrides.push_back("run.threads=" + threads);
    return overrides;
  };
  const TrainingOutcome one = train("one", {}, with_threads("1"));
  train("three", {.stop_after = 4}, with_threads("3"));
  const TrainingOutcome three = train("three", {.mode = RunMode::resume}, with_threads("3"));
  expect_equal_checkpoints(one.checkpoint, three.checkpoint);
  const TrainingOutcome by_adamw = train("adamw");
  EXPECT_NE(one.evaluation->loss, by_adamw.evaluation->loss);
  // Moments of one mean nothing to the other.
  train("stopped", {.stop_after = 4});
  const auto refused =
      testing::ThrowsMessage<UsageError>(testing::HasSubstr("was trained with another optim.name"));
  EXPECT_THAT([&] { train("stopped", {.mode = RunMode::resume}, muon); }, refused);
  std::vector<std::string> back = muon;
  back.front() = "optim.name=adamw";
  EXPECT_THAT([&] { train("three", {.mode = RunMode::resume}, back); }, refused);
}

// Subspaces that are kept, and such as are found anew in the first step after a resume.
TEST_F(Resume, ByLambAndGaloreTooContinuesToTheBitOnAnyNumberOfThreads) {
  for (const std::vector<std::string>& optimizer :
       {std::vector<std::string>{"optim.name=lamb"},
        {"optim.name=galore", "optim.galore={rank=5, update_proj_gap=3}"},
        {"optim.name=galore", "optim.galore={rank=4, update_proj_gap=2, proj_type=\"full\"}"}}) {
    SCOPED_TRACE(optimizer.back());
    const auto on_threads = [&](const std::string& threads) {
      std::vector<std::string> overrides = optimizer;
      overrides.push_back("run.threads=" + threads);
      return overrides;
    };
    const std::string name = std::to_string(std::hash<std::string>()(optimizer.back()));
    const TrainingOutcome one = train("one" + name, {}, on_threads("1"));
    for (const int stop : {1, 3, 4, 8}) {
      const std::string run = fmt::format("{}-{}", name, stop);
      train(run, {.stop_after = stop}, on_threads("3"));
      const TrainingOutcome rest = train(run, {.mode = RunMode::resume}, on_threads("3"));
      expect_equal_checkpoints(one.checkpoint, rest.checkpoint);
    }
  }
}

TEST_F(Resume, LowRankLayersContinueToTheBitOnAnyNumberOfThreads) {
  const auto with_threads = [](const std::string& threads) {
    return std::vector<std::string>{"tensorized.enabled=false", "low_rank.rank=5", "run.threads=" + threads};
  };
  const TrainingOutcome one = train("one", {}, with_threads("1"));
  train("three", {.stop_after = 4}, with_threads("3"));
  const TrainingOutcome three = train("three", {.mode = RunMode::resume}, with_threads("3"));
  expect_equal_checkpoints(one.checkpoint, three.checkpoint);
  // Who fine-tunes the model takes its form over.
  const Recipe taken = parse_recipe(
      "[[phase]]\nname = \"a\"\nlength = 16\ntokens_per_micro_batch = 64\nsteps = 1\n"
      "learning_rate = 1e-3\n",
      "r.toml", {}, {.toml = to_toml(recipe("one", with_threads("1"))), .name = "c"});
  ASSERT_TRUE(taken.low_rank);
  EXPECT_EQ(taken.low_rank->rank, 5);
  const ProgramResult result = run_program({"inspect", one.checkpoint.string()});
  EXPECT_EQ(result.code, 0) << result.output;
  EXPECT_NE(result.output.find("low rank 24 x 5 x 24"), std::string::npos) << result.output;
}

// In the middle of an interval, at a merge, at the end of a phase.
TEST_F(Resume, AdaptersContinueToTheBitOnAnyNumberOfThreads) {
  const TrainingOutcome whole = train("whole", {}, with_adapters({"run.threads=1"}));
  for (const int stop : {2, 4, 6, 7, 8}) {
    const std::string run = fmt::format("stopped-{}", stop);
    const std::vector<std::string> settings = with_adapters({stop == 4 ? "run.threads=3" : "run.threads=1"});
    train(run, {.stop_after = stop}, settings);
    const TrainingOutcome rest = train(run, {.mode = RunMode::resume}, settings);
    expect_equal_checkpoints(whole.checkpoint, rest.checkpoint);
    if (stop != 4) {  // more threads have more scratch
      EXPECT_EQ(metrics("whole"), metrics(run));
    }
    EXPECT_EQ(whole.evaluation->loss, rest.evaluation->loss);
  }
}

// Who changes the length of a phase that is over changes nothing of those to come.
TEST_F(Resume, APhaseThatIsOverMayHaveAnyLengthNow) {
  const TrainingOutcome whole = train("whole");
  for (const char* steps : {"phase.0.steps=20", "phase.0.steps=3"}) {
    const std::string run = std::string("run-") + steps;
    train(run, {.stop_after = 9});  // two steps within the second phase of five
    const TrainingOutcome rest = train(run, {.mode = RunMode::resume}, {steps});
    EXPECT_TRUE(rest.finished) << steps;
    EXPECT_EQ(rest.step, whole.step) << steps;
    EXPECT_EQ(rest.evaluation->loss, whole.evaluation->loss) << steps;
    EXPECT_TRUE(train(run, {.mode = RunMode::automatic}, {steps}).finished) << "nothing is left to do";
  }
}

TEST_F(Resume, OneThreadAndTwoGiveTheSameBits) {
  const TrainingOutcome one = train("one", {}, {"run.threads=1"});
  const TrainingOutcome two = train("two", {}, {"run.threads=2"});
  const TrainingOutcome three = train("three", {}, {"run.threads=3"});
  expect_equal_checkpoints(one.checkpoint, two.checkpoint);
  expect_equal_checkpoints(one.checkpoint, three.checkpoint);
}

// The position in a checkpoint means nothing on other samples.
TEST_F(Resume, OtherSamplesAreRefused) {
  train("run", {.stop_after = 4});
  try {
    train("run", {.mode = RunMode::resume}, {"phase.0.length=12"});
    FAIL() << "another sample length was accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("resume with the same data and phase.0.length"),
              std::string::npos)
        << error.what();
  }
}

TEST_F(Resume, AFinishedRunIsReportedAgainWithoutTraining) {
  const TrainingOutcome whole = train("run");
  const TrainingOutcome again = train("run", {.mode = RunMode::automatic});
  EXPECT_TRUE(again.finished);
  EXPECT_EQ(again.step, whole.step);
  ASSERT_TRUE(again.evaluation);
  EXPECT_EQ(again.evaluation->loss, whole.evaluation->loss);
}

TEST_F(Resume, ADamagedNewestCheckpointIsRefusedAndTheOneBeforeUsedWhenAskedFor) {
  train("run", {.stop_after = 8});  // checkpoints of steps 7 and 8
  const fs::path newest = folder() / "run" / "checkpoints" / "step-00000008.h5";
  ASSERT_TRUE(fs::exists(newest));
  fs::resize_file(newest, fs::file_size(newest) / 2);
  try {
    train("run", {.mode = RunMode::resume});
    FAIL() << "a truncated checkpoint was used";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("step-00000008.h5"), std::string::npos) << error.what();
  }
  const TrainingOutcome resumed = train("run", {.mode = RunMode::resume, .resume = ResumeMode::newest_valid});
  const TrainingOutcome whole = train("whole");
  expect_equal_checkpoints(whole.checkpoint, resumed.checkpoint);
}

TEST_F(Resume, ACheckpointIsInspectedByItself) {
  const TrainingOutcome outcome = train("run");
  const ProgramResult result = run_program({"inspect", outcome.checkpoint.string()});
  EXPECT_EQ(result.code, 0) << result.output;
  for (const char* part :
       {"step 12", "encoder.1.attention.query", "[4,6 | 6,4] ranks 4,6,4", "tensor-train cores"})
    EXPECT_NE(result.output.find(part), std::string::npos) << part << " in\n" << result.output;
  EXPECT_TRUE(fs::exists(folder() / "run" / "tokenizer.model"));
}

// A file system of its own that is full from the fourth step on: the checkpoint of step 3 stays, and serves.
TEST_F(Resume, AFullDiskLeavesTheLastGoodCheckpoint) {
  const fs::path disk = folder() / "disk";
  fs::create_directory(disk);
  if (mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=2m") != 0)
    GTEST_SKIP() << "only root can mount a small disk";
  struct Mounted {
    const fs::path& path;
    ~Mounted() { umount2(path.c_str(), MNT_DETACH); }
  } const mounted{disk};
  const fs::path filler = disk / "filler";
  const std::vector<std::string> on_disk = {fmt::format("run.output=\"{}\"", (disk / "run").string())};
  std::FILE* null = std::fopen("/dev/null", "w");
  TrainingOptions options{.after_step =
                              [&](std::int64_t step) {
                                if (step != 4) return;
                                std::ofstream file(filler, std::ios::binary);
                                const std::string block(1024, 'x');
                                while (file.write(block.data(), 1024).flush()) {
                                }
                              },
                          .output = null};
  try {
    TrainingRun(parse_recipe(recipe_text(), "test.toml", on_disk), options).run();
    ADD_FAILURE() << "the disk was not full";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("No space left on device"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("step-00000003.h5"), std::string::npos) << error.what();
  }
  fs::remove(filler);
  options = {.mode = RunMode::resume, .output = null};
  const TrainingOutcome resumed =
      TrainingRun(parse_recipe(recipe_text(), "test.toml", on_disk), options).run();
  std::fclose(null);
  expect_equal_checkpoints(train("whole").checkpoint, resumed.checkpoint);
}

// The real program, killed where it happens to be: it never needs more than to be started again. (Of such
// kills tests/qa/attack makes a thousand.)
TEST_F(Resume, KilledAtRandomMomentsEndsWithTheSameBits) {
  const std::vector<std::string> longer = {"phase.0.steps=200", "phase.1.steps=50",
                                           "run.checkpoint_interval=4", "run.evaluation_interval=0"};
  const TrainingOutcome whole = train("whole", {}, longer);
  const fs::path file = write_recipe();
  std::vector<std::string> arguments = {"pretrain", file.string(), "--output", (folder() / "killed").string(),
                                        "--resume", "auto"};
  for (const std::string& override_text : longer) {
    arguments.push_back("--set");
    arguments.push_back(override_text);
  }
  const unsigned seed = static_cast<unsigned>(getpid());
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937 random(seed);
  int killed = 0, killed_in_training = 0;
  for (int attempt = 0; attempt < 4; ++attempt) {
    const pid_t child = fork();
    if (child == 0) {
      const int null = fileno(std::fopen("/dev/null", "w"));
      dup2(null, STDOUT_FILENO);
      dup2(null, STDERR_FILENO);
      std::vector<char*> argv{const_cast<char*>(COMERA_PROGRAM)};
      for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
      argv.push_back(nullptr);
      execv(COMERA_PROGRAM, argv.data());
      _exit(127);
    }
    // Every other time not before there is a checkpoint, however slow the machine is.
    const fs::path latest = folder() / "killed" / "checkpoints" / "latest";
    for (int waited = 0; attempt % 2 == 1 && waited < 20000 && !fs::exists(latest); ++waited)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::this_thread::sleep_for(std::chrono::milliseconds(20 + random() % 400));
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    if (!WIFSIGNALED(status)) continue;
    ++killed;
    if (fs::exists(folder() / "killed" / "checkpoints" / "latest")) ++killed_in_training;
  }
  EXPECT_EQ(killed, 4) << "a run had ended before it could be killed";
  EXPECT_GE(killed_in_training, 2);
  const ProgramResult last = run_program(arguments);
  ASSERT_EQ(last.code, 0) << last.output;
  expect_equal_checkpoints(whole.checkpoint, folder() / "killed" / "checkpoints" / "step-00000250.h5");
}

TEST_F(Resume, ATerminatedProgramSavesAndSaysHowToGoOn) {
  const fs::path file = write_recipe();
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  const std::string output = (folder() / "run").string();
  const pid_t child = fork();
  if (child == 0) {
    dup2(pipe_ends[1], STDOUT_FILENO);
    dup2(pipe_ends[1], STDERR_FILENO);
    execl(COMERA_PROGRAM, COMERA_PROGRAM, "pretrain", file.c_str(), "--output", output.c_str(), "--set",
          "phase.0.steps=100000", nullptr);
    _exit(127);
  }
  close(pipe_ends[1]);
  while (!fs::exists(folder() / "run" / "checkpoints" / "latest"))
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  kill(child, SIGTERM);
  std::string text;
  char buffer[512];
  for (ssize_t got; (got = read(pipe_ends[0], buffer, sizeof buffer)) > 0;) text.append(buffer, got);
  close(pipe_ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0) << text;
  EXPECT_NE(text.find("continue with: comera resume "), std::string::npos) << text;
}

}  // namespace
}  // namespace comera::test
