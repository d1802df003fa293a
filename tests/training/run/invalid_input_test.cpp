#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/file.h>

#include <fstream>

#include "checkpoints/checkpoint_file.h"
#include "kernels/backends/backends.h"
#include "storage/hdf5.h"
#include "tests/training/training_fixture.h"

namespace comera::test {
namespace {

namespace fs = std::filesystem;
using testing::ContainsRegex;
using testing::HasSubstr;

// What careless users do to the program, and the one sentence that each gets.
class InvalidInput : public TrainingFixture {
 protected:
  ProgramResult pretrain(const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = {"pretrain", write_recipe().string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_program(arguments);
  }
  ProgramResult pretrain_with(const std::string& from, const std::string& to) {
    std::string text = recipe_text();
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    const fs::path file = folder() / "changed.toml";
    std::ofstream(file) << text.replace(at, from.size(), to);
    return run_program({"pretrain", file.string()});
  }
};

TEST_F(InvalidInput, MisspeltKey) {
  expect(pretrain_with("heads = 2", "haeds = 2"), 2, {"changed.toml:5:1", "model.haeds", "heads"});
}
TEST_F(InvalidInput, WrongType) {
  expect(pretrain_with("layers = 2", "layers = \"two\""), 2, {"changed.toml:3", "model.layers", "integer"});
}
TEST_F(InvalidInput, ModesThatDoNotMultiply) {
  expect(pretrain_with("input_modes = [4, 6]", "input_modes = [4, 5]"), 2,
         {"[4, 5]", "multiply to 20", "24"});
}
TEST_F(InvalidInput, HiddenNotDivisibleByHeads) {
  expect(pretrain_with("heads = 2", "heads = 7"), 2, {"model.hidden = 24", "model.heads = 7"});
}
TEST_F(InvalidInput, VocabularyBeyondTheRowsOfTheTrain) {
  expect(pretrain_with("row_modes = [8, 8, 8]", "row_modes = [4, 4, 4]"), 2,
         {"multiply to 64", "vocabulary"});
}
TEST_F(InvalidInput, UnknownOverride) {
  expect(pretrain({"--set", "phase.0.stesp=3"}), 2, {"phase.0.stesp", "steps"});
  expect(pretrain({"--set", "phase.0.steps"}), 2, {"phase.0.steps"});
}
TEST_F(InvalidInput, UnknownCommand) { expect(run_program({"pretrian"}), 2, {"pretrian", "pretrain"}); }
TEST_F(InvalidInput, MissingRecipe) { expect(run_program({"pretrain", "absent.toml"}), 2, {"absent.toml"}); }

TEST_F(InvalidInput, EmptyCorpus) {
  const std::string none = (folder() / "none").string(), shards = (folder() / "shards").string();
  fs::create_directory(none);
  expect(run_program({"tokenizer", "--input", none, "--output", (folder() / "tok.model").string()}), 1,
         {"nothing to train on"});
  expect(pretrain({"--set", fmt::format("data.train=\"{}\"", none)}), 1, {"none: has no train shards"});
  const auto make = [&](const std::string& input) {
    return run_program({"data", "--input", input, "--tokenizer", (corpus() / "tok.model").string(),
                        "--output", shards, "--overwrite"});
  };
  expect(make(none), 1, {"the corpus is empty"});
  ASSERT_EQ(make((corpus() / "source").string()).code, 0);
  const std::string before = data::ShardSet(shards, "train").fingerprint();
  expect(make(none), 1, {"the corpus is empty"});
  EXPECT_EQ(data::ShardSet(shards, "train").fingerprint(), before);
}

TEST_F(InvalidInput, AnIncompleteCorpus) {
  const std::string shards = (folder() / "shards").string();
  ASSERT_EQ(run_program({"data", "--input", (corpus() / "source").string(), "--tokenizer",
                         (corpus() / "tok.model").string(), "--output", shards, "--tokens-per-shard", "3000"})
                .code,
            0);
  fs::remove(fs::path(shards) / "train-00001.h5");
  expect(pretrain({"--set", fmt::format("data.train=\"{}\"", shards)}), 1,
         {"is incomplete: train-00001.h5 is missing", "comera data"});
}

TEST_F(InvalidInput, AStoppedBuildAndAFileInPlaceOfTheFolder) {
  const fs::path shards = folder() / "shards", file = folder() / "file";
  std::ofstream(file) << "";
  const auto make = [&](const fs::path& output, const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = {"data",
                                          "--input",
                                          (corpus() / "source").string(),
                                          "--tokenizer",
                                          (corpus() / "tok.model").string(),
                                          "--output",
                                          output.string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_program(arguments);
  };
  expect(make(file), 2, {"--output", "is a file"});
  expect(make(file, {"--overwrite"}), 2, {"--output", "is a file"});
  expect(make(shards, {"--held-out", "2"}), 2, {"held-out fraction"});
  expect(make(shards, {"--languages", "java"}), 1, {"the corpus is empty"});
  EXPECT_FALSE(fs::exists(shards));
  fs::create_directory(shards);
  std::ofstream(shards / "train-00000.h5.partial") << "half";
  EXPECT_EQ(make(shards).code, 0);
  EXPECT_FALSE(fs::exists(shards / "train-00000.h5.partial"));
  expect(make(shards), 2, {"--overwrite"});
}

TEST_F(InvalidInput, ADamagedNewestCheckpoint) {
  ASSERT_EQ(pretrain({"--stop-after", "4"}).code, 0);  // saved at steps 3 and 4
  const fs::path checkpoints = folder() / "run/checkpoints", newest = checkpoints / "step-00000004.h5";
  fs::resize_file(newest, fs::file_size(newest) / 2);
  expect(run_program({"eval", (folder() / "run").string()}), 1,
         {"name an older one instead", "step-00000003.h5"});
  expect(pretrain({"--resume", "auto"}), 1, {"--use-older-checkpoint"});
  const ProgramResult resumed =
      pretrain({"--resume", "auto", "--use-older-checkpoint", "--set", "phase.1.learning_rate=1e-4"});
  EXPECT_EQ(resumed.code, 0) << resumed.output;
  // Before anything else is said or done.
  EXPECT_THAT(resumed.output, testing::StartsWith("not used: " + newest.string()));
  EXPECT_THAT(resumed.output, HasSubstr("; the run continues from step-00000003.h5\n"));
  EXPECT_THAT(resumed.output, HasSubstr("step-00000004.h5 is kept as step-00000004.h5.damaged\n"));
  EXPECT_THAT(resumed.output, HasSubstr("step-00000003.h5: step 3 of 12"));
  EXPECT_TRUE(fs::exists(checkpoints / "step-00000004.h5.damaged"));
}

TEST_F(InvalidInput, AMissingNewestCheckpoint) {
  ASSERT_EQ(pretrain({"--stop-after", "4"}).code, 0);  // saved at steps 3 and 4
  const fs::path run = folder() / "run", newest = run / "checkpoints/step-00000004.h5";
  fs::rename(newest, folder() / "elsewhere.h5");
  fs::remove(run / "best.h5");
  const ProgramResult scores = run_program({"eval", run.string(), "--data", corpus().string()});
  EXPECT_EQ(scores.code, 0) << scores.output;
  EXPECT_THAT(scores.output, HasSubstr("note: " + newest.string() +
                                       " was saved but is missing; step-00000003.h5 is used\n"));
  const ProgramResult resumed = pretrain({"--resume", "auto"});
  EXPECT_EQ(resumed.code, 0) << resumed.output;
  EXPECT_THAT(resumed.output,
              testing::StartsWith(newest.string() +
                                  " was saved but is missing; the run continues from step-00000003.h5\n"));
  EXPECT_THAT(run_program({"inspect", run.string()}).output, testing::Not(HasSubstr("missing")));
}

// The best model is another name of a checkpoint, and may be of steps that are given up.
TEST_F(InvalidInput, ABestModelOfStepsThatAreGivenUp) {
  const std::vector<std::string> often = {"--set", "run.evaluation_interval=1"};
  const auto train = [&](std::vector<std::string> more) {
    more.insert(more.end(), often.begin(), often.end());
    return pretrain(more);
  };
  ASSERT_EQ(train({"--stop-after", "4"}).code, 0);
  const fs::path run = folder() / "run", checkpoints = run / "checkpoints";
  const auto step_of = [](const fs::path& file) {
    return CheckpointReader(file).integer("/trainer", "step");
  };
  ASSERT_EQ(step_of(run / "best.h5"), 4) << "the loss falls in the first steps";
  // As after a fault whose message says to remove the last checkpoints.
  fs::remove(checkpoints / "step-00000004.h5");
  const std::vector<std::string> stop = {"--resume", "auto", "--stop-after", "5"};
  ProgramResult resumed = train(stop);
  ASSERT_EQ(resumed.code, 0) << resumed.output;
  EXPECT_THAT(resumed.output,
              HasSubstr("best.h5 belongs to step 4 and is not the best model of the resumed run; it is kept "
                        "as best-step-4.h5; the best model is again that of step 3\n"));
  EXPECT_EQ(step_of(run / "best-step-4.h5"), 4);
  EXPECT_GE(step_of(run / "best.h5"), 3);

  // Another time neither the best one nor its checkpoint is there, unless it is the last.
  for (int step = 1; step < 5; ++step) fs::remove(checkpoints / fmt::format("step-{:08}.h5", step));
  fs::remove(run / "best.h5");
  resumed = train({"--resume", "auto", "--stop-after", "6"});
  ASSERT_EQ(resumed.code, 0) << resumed.output;
  EXPECT_GE(step_of(run / "best.h5"), 5);
}

TEST_F(InvalidInput, KeysThatChangeNothingAreNamed) {
  const ProgramResult result =
      pretrain({"--stop-after", "1", "--set", "precision.margin=2", "--set", "precision.fp8_recipe=delayed",
                "--set", "precision.compute=bf16", "--set", "model.vector_size=8"});
  EXPECT_EQ(result.code, 0) << result.output;
  EXPECT_THAT(result.output,
              HasSubstr("the dense layer of 8 behind the vectors (model.vector_size) is left out"));
  for (const char* key : {"fp8_recipe", "margin"})
    EXPECT_THAT(result.output,
                HasSubstr(fmt::format("precision.{} changes nothing: precision.compute = \"bf16\" has "
                                      "no 8-bit operands\n",
                                      key)));
  EXPECT_THAT(result.output, testing::Not(HasSubstr("amax_history_len")));
}

// Where bfloat16 is faster, whoever begins in float32 is told so, once.
TEST_F(InvalidInput, AFasterTypeIsNamedWhereThereIsOne) {
  const auto advice = HasSubstr("--set precision.compute=bf16");
  const std::string set = instruction_set();
  const bool faster = set == "bf16" || set == "amx";
  const auto begin = [&](std::vector<std::string> more) {
    fs::remove_all(folder() / "run");
    more.insert(more.end(), {"--stop-after", "1", "--device", "cpu"});
    const ProgramResult result = pretrain(more);
    EXPECT_EQ(result.code, 0) << result.output;
    return result.output;
  };
  EXPECT_THAT(begin({"--set", "precision.compute=bf16"}), testing::Not(advice));
  EXPECT_EQ(begin({"--set", "precision.compute=auto"}).find("computes in bfloat16") != std::string::npos,
            faster);
  EXPECT_EQ(begin({"--set", "precision.compute=fp32"}).find("bfloat16"), std::string::npos);
  EXPECT_THAT(pretrain({"--resume", "auto", "--stop-after", "2", "--device", "cpu"}).output,
              testing::Not(advice));
  setenv("COMERA_ISA", "v3", 1);  // has no products of bfloat16
  const std::string slow = begin({});
  setenv("COMERA_ISA", set.c_str(), 1);
  EXPECT_THAT(slow, testing::Not(advice));
}

TEST_F(InvalidInput, InvalidTextIsCountedAndDropped) {
  fs::create_directory(folder() / "source");
  std::ofstream(folder() / "source" / "bad.py", std::ios::binary)
      << std::string("def f():\n    return '\xff\xfe broken'\n") + std::string(100, 'x');
  std::ofstream(folder() / "source" / "good.py")
      << "def f():\n    return 'a sentence that is long enough to keep'\n";
  const ProgramResult result = run_program({"data", "--input", (folder() / "source").string(), "--tokenizer",
                                            (corpus() / "tok.model").string(), "--output",
                                            (folder() / "shards").string(), "--held-out", "0"});
  EXPECT_EQ(result.code, 0) << result.output;
  EXPECT_THAT(result.output, ContainsRegex("kept +1 "));
  EXPECT_THAT(result.output, ContainsRegex("dropped +1 +1[0-9]+\n"));
  EXPECT_THAT(result.output, ContainsRegex("invalid UTF-8 +1 +1[0-9]+\n +convert it"));
}

TEST_F(InvalidInput, TokenIdsOutOfRange) {
  const fs::path shards = folder() / "shards";
  fs::create_directory(shards);
  const data::ShardSet good(corpus(), "train");
  data::ShardInfo info = good.info();
  {
    data::ShardWriter writer(shards, info, 1 << 20);
    writer.add(std::vector<std::int32_t>{5, 6, info.vocabulary + 7, 8});
    writer.finish();
  }
  expect(pretrain({"--set", fmt::format("data.train=\"{}\"", shards.string())}), 1,
         {"train-00000.h5", std::to_string(info.vocabulary + 7), "document 0"});
}

TEST_F(InvalidInput, ACheckpointOfAnotherModel) {
  ASSERT_EQ(pretrain({"--stop-after", "2"}).code, 0);
  expect(pretrain({"--resume", "auto", "--set", "model.layers=3"}), 2,
         {"another model", "model.layers is 2 in the checkpoint, 3 here"});
  expect(pretrain({"--resume", "auto", "--set", "tensorized.enabled=false"}), 2,
         {"another model", "tensorized.enabled is true in the checkpoint, false here"});
  // Which no parameter's shape would tell.
  for (const char* key : {"heads=1", "norm='pre'", "positions='relative'", "rotary_theta=100.0"}) {
    const std::string change = fmt::format("model.{}", key);
    const std::vector<std::string> complaint = {change.substr(0, change.find('=')),
                                                "use the recipe of that run"};
    expect(pretrain({"--resume", "auto", "--set", change}), 2, complaint);
    expect(pretrain({"--from", (folder() / "run").string(), "--output", (folder() / "other").string(),
                     "--set", change}),
           2, complaint);
  }
}

TEST_F(InvalidInput, AnOutputDirectoryThatHoldsARunOrIsInUse) {
  ASSERT_EQ(pretrain({"--stop-after", "2"}).code, 0);
  expect(pretrain(), 2, {"--output", "--resume auto"});
  const RunDirectory held(folder() / "run", RunMode::resume);
  expect(pretrain({"--resume", "auto"}), 1, {std::to_string(getpid())});
}

TEST_F(InvalidInput, ATruncatedTokenizerAndShard) {
  fs::copy(corpus() / "tok.model", folder() / "short.model");
  fs::resize_file(folder() / "short.model", 100);
  expect(pretrain({"--set", fmt::format("data.tokenizer=\"{}\"", (folder() / "short.model").string())}), 1,
         {"short.model"});
  fs::create_directory(folder() / "shards");
  fs::copy(corpus() / "train-00000.h5", folder() / "shards");
  fs::resize_file(folder() / "shards" / "train-00000.h5", 3000);
  expect(pretrain({"--set", fmt::format("data.train=\"{}\"", (folder() / "shards").string())}), 1,
         {"train-00000.h5"});
  EXPECT_FALSE(fs::exists(folder() / "run"));  // nothing of what failed
}

}  // namespace
}  // namespace comera::test
