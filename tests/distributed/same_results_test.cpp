// What several processes train is what one does.
#include <random>

#include "tests/distributed/processes.h"
#include "tests/training/float8_overrides.h"

namespace comera::test {
namespace {

using testing::HasSubstr;

std::vector<std::string> pruning() {
  return {"phase.0.steps=8",
          "phase.1.steps=12",
          "phase.0.objective=regularize",
          "phase.1.objective=compress",
          "phase.1.learning_rate={cores=1e-3, gates=0.15, other=1e-3}",
          "phase.1.schedule=constant",
          "phase.1.adaptation.threshold=0.5",
          "phase.1.adaptation.target_ratio=0.6",
          "phase.1.adaptation.compact_interval=3"};
}

TEST_F(Processes, MetricsSayHowLongProcessesWaited) {
  train(1, "one", {});
  for (const nlohmann::json& line : lines("one")) EXPECT_FALSE(line.contains("waiting_ms")) << line;
  train(2, "two", {});  // with five micro-batches a step, of which the first process has three
  // Of single steps a process may wait longer than the first one's step takes: they begin one after the
  // other.
  double waited = 0, all = 0;
  int counted = 0;
  for (const nlohmann::json& line : lines("two")) {
    if (!line.contains("ms_per_step")) continue;
    const double sums = line.at("waiting_ms").at("sums"), processes = line.at("waiting_ms").at("processes");
    EXPECT_GT(sums, 0) << line;
    EXPECT_GT(processes, 0) << line;
    waited += sums + processes;
    all += line.at("ms_per_step").get<double>();
    ++counted;
  }
  EXPECT_LT(waited, all);
  EXPECT_GT(counted, 1);
}

TEST_F(Processes, TheFirstOneMakesTheDataForAll) {
  const std::vector<std::string> none = {"data.train=''", "data.validation=''", "data.tokenizer=''"};
  const std::vector<std::string> input = {"--input", (corpus() / "source").string(), "--vocabulary", "400"};
  train(1, "one", none, input);
  train(2, "two", none, input);
  expect_the_same("one", "two", 1e-5);
}

TEST_F(Processes, EarlyAndLateStagesDoNotDependOnTheirNumber) {
  train(1, "one", pruning());
  const CheckpointReader reader(newest("one"));
  ASSERT_NE(held_ranks(reader), load_rank_history(reader).stages.front().ranks) << "nothing was compacted";
  for (const int processes : {2, 4}) {
    const std::string run = fmt::format("of-{}", processes);
    train(processes, run, pruning());
    expect_the_same("one", run, 1e-5);
  }
}

TEST_F(Processes, BlocksAreAddedInAll) {
  const std::vector<std::string> deeper = {"model.layers=3", "phase.0.layers=1", "phase.1.objective=fixed"};
  train(1, "one", deeper);
  train(2, "two", deeper);
  EXPECT_TRUE(CheckpointReader(newest("two")).has_tensor("/model/encoder.2.norm1.weight"));
  expect_the_same("one", "two", 1e-5);
}

TEST_F(Processes, MuonDoesNotDependOnTheirNumber) {
  std::vector<std::string> muon = pruning();
  for (const char* more :
       {"optim.name=muon", "phase.0.learning_rate={cores=0.01, embedding=1e-3, gates=1e-3, other=1e-3}",
        "phase.1.learning_rate={cores=0.01, embedding=1e-3, gates=0.15, other=1e-3}"})
    muon.emplace_back(more);
  train(1, "one", muon);
  train(2, "two", muon);
  expect_the_same("one", "two", 1e-4);  // directions of small singular values follow rounding
}

// Each process finds the subspaces of some of the matrices.
TEST_F(Processes, LambAndGaloreDoNotDependOnTheirNumber) {
  for (const std::vector<std::string>& optimizer :
       {std::vector<std::string>{"optim.name=lamb"},
        {"optim.name=galore", "optim.galore={rank=8, update_proj_gap=4}"}}) {
    std::vector<std::string> overrides = pruning();
    overrides.insert(overrides.end(), optimizer.begin(), optimizer.end());
    const std::string name = optimizer.front();
    train(1, name + "-one", overrides);
    for (const int processes : {2, 3}) {
      const std::string run = fmt::format("{}-{}", name, processes);
      train(processes, run, overrides);
      expect_the_same(name + "-one", run, 1e-4);  // subspaces follow rounding
    }
  }
}

TEST_F(Processes, AveragesDoNotDependOnTheirNumberAndContinueToTheBit) {
  std::vector<std::string> averaged = pruning();
  averaged.emplace_back("optim.average_decay=0.8");
  train(1, "one", averaged);
  train(2, "two", averaged);
  expect_the_same("one", "two", 1e-5);
  train(2, "stopped", averaged, {"--stop-after", "5"});
  train(2, "stopped", averaged, {"--resume", "auto"});
  expect_equal_checkpoints(newest("two"), newest("stopped"));
}

TEST_F(Processes, SharesOfMasksThatFallDoNotDependOnTheirNumber) {
  const std::vector<std::string> falling = {"phase.0.mask_probability=0.5",
                                            "phase.0.final_mask_probability=0.1"};
  train(1, "one", falling);
  for (const int processes : {2, 3}) {
    const std::string run = fmt::format("{}", processes);
    train(processes, run, falling);
    expect_the_same("one", run, 1e-5);
  }
  train(3, "stopped", falling, {"--stop-after", "4"});
  train(3, "stopped", falling, {"--resume", "auto"});
  expect_equal_checkpoints(newest("3"), newest("stopped"));
}

// Also stopped between two merges.
TEST_F(Processes, AdaptersDoNotDependOnTheirNumberAndContinueToTheBit) {
  const std::vector<std::string> adapters = {
      "tensorized.enabled=false", "lte={lora_r=3, lora_alpha=12, num_heads=4, merge_steps=3}",
      "run.evaluation_interval=6", "phase.0.learning_rate=5e-3", "phase.1.learning_rate=5e-3"};
  train(1, "one", adapters);
  train(2, "two", adapters);
  expect_the_same("one", "two", 1e-4);
  train(2, "stopped", adapters, {"--stop-after", "5"});
  train(2, "stopped", adapters, {"--resume", "auto"});
  expect_equal_checkpoints(newest("two"), newest("stopped"));
}

TEST_F(Processes, SourcesDoNotDependOnTheirNumber) {
  std::filesystem::create_directory_symlink(corpus(), folder() / "again");
  const std::vector<std::string> sources = {
      "data.train=''", "data.validation=''",
      fmt::format("data.source=[{{folder='{}', weight=2}}, {{folder='{}/again', weight=1}}]",
                  corpus().string(), folder().string())};
  train(1, "one", sources);
  train(2, "two", sources);
  expect_the_same("one", "two", 1e-5);
  train(2, "stopped", sources, {"--stop-after", "5"});
  train(2, "stopped", sources, {"--resume", "auto"});
  expect_equal_checkpoints(newest("two"), newest("stopped"));
}

// By the first one's clock: whoever stopped at another step would wait for the others for ever.
TEST_F(Processes, EndTogetherWhenTheirHoursAreOver) {
  train(2, "run", {"run.max_hours=0.0006"});
  const CheckpointReader reader(newest("run"));
  EXPECT_GE(reader.number("/trainer", "seconds"), 0.9 * 0.0006 * 3600);
  EXPECT_EQ(reader.integer("/trainer", "phase"), 1);
}

TEST_F(Processes, DenseModelsDoNotDependOnTheirNumber) {
  const std::vector<std::string> dense = {"tensorized.enabled=false", "phase.0.steps=12", "phase.1.steps=8",
                                          "distributed.bucket_mebibytes=1"};
  train(1, "one", dense);
  for (const int processes : {2, 4}) {
    const std::string run = fmt::format("of-{}", processes);
    train(processes, run, dense);
    expect_the_same("one", run, 1e-5);
  }
}

TEST_F(Processes, LowRankModelsDoNotDependOnTheirNumber) {
  const std::vector<std::string> low_rank = {"tensorized.enabled=false", "low_rank.rank=5"};
  train(1, "one", low_rank);
  ASSERT_TRUE(CheckpointReader(newest("one")).has_tensor("/model/encoder.0.attention.query.u"));
  train(2, "two", low_rank);
  expect_the_same("one", "two", 1e-5);
}

TEST_F(Processes, NarrowTypesDoNotDependOnTheirNumber) {
  for (const char* compute : {"bf16", "fp8"}) {
    const std::vector<std::string> narrow =
        in_float8("delayed", {fmt::format("precision.compute={}", compute)});
    train(1, fmt::format("one-{}", compute), narrow);
    train(3, fmt::format("three-{}", compute), narrow);
    expect_the_same(fmt::format("one-{}", compute), fmt::format("three-{}", compute), 2e-3);
  }
  EXPECT_TRUE(
      CheckpointReader(newest("three-fp8")).has_tensor(std::string(float8_at) + "encoder.0.ffn.up/history"));
}

TEST_F(Processes, AsManyTwiceGiveTheSameBits) {
  train(3, "once", pruning());
  train(3, "again", pruning());
  expect_equal_checkpoints(newest("once"), newest("again"));
}

// Three begin, two go on, and one ends; the same number goes on to the same bits.
TEST_F(Processes, AnotherNumberGoesOn) {
  train(1, "whole", pruning());
  train(3, "moved", pruning(), {"--stop-after", "6"});
  train(2, "moved", pruning(), {"--resume", "auto", "--stop-after", "13"});
  train(1, "moved", pruning(), {"--resume", "auto"});
  expect_the_same("whole", "moved", 1e-5);
  train(2, "straight", pruning());
  train(2, "stopped", pruning(), {"--stop-after", "11"});
  train(2, "stopped", pruning(), {"--resume", "auto"});
  expect_equal_checkpoints(newest("straight"), newest("stopped"));
}

// Every example is scored once, whoever scores it.
TEST_F(Processes, FineTuningIsScoredWhole) {
  const std::vector<std::string> words = {"count", "total", "value", "index"};
  for (const char* name : {"train.tsv", "dev.tsv"}) {
    std::ofstream stream(folder() / name);
    stream << "first\tsecond\tlabel\n";
    std::mt19937 random(name[0]);
    for (int i = 0; i < 131; ++i) {
      const std::size_t a = random() % 4, b = random() % 2 != 0 ? a : random() % 4;
      stream << fmt::format("{}\t{}\t{}\n", words[a], words[b], a == b ? "same" : "other");
    }
  }
  const std::vector<std::string> task = {
      "task.name=words", "task.text=[\"first\", \"second\"]", "task.label=label",
      fmt::format("task.train=\"{}\"", (folder() / "train.tsv").string()),
      fmt::format("task.validation=\"{}\"", (folder() / "dev.tsv").string())};
  std::vector<nlohmann::json> scores;
  for (const int processes : {1, 3}) {
    const std::string run = fmt::format("of-{}", processes);
    std::vector<std::string> all = command(run, task);
    all[1] = "finetune";
    const ProgramResult result = run_processes(processes, all);
    ASSERT_EQ(result.code, 0) << result.output;
    for (const auto& line : lines(run))
      if (line.contains("validation")) scores.push_back(line["validation"]["dev"]);
  }
  ASSERT_GT(scores.size(), 0u);
  ASSERT_EQ(scores.size() % 2, 0u);
  for (std::size_t i = 0; i < scores.size() / 2; ++i) {
    const auto &one = scores[i], &three = scores[scores.size() / 2 + i];
    EXPECT_EQ(one["examples"], 131);
    EXPECT_EQ(three["examples"], 131);
    EXPECT_EQ(one["accuracy"], three["accuracy"]);
    EXPECT_NEAR(one["loss"], three["loss"], 1e-5);
  }
}

// Negatives are those of a micro-batch, whoever has it.
TEST_F(Processes, ContrastiveVectorsDoNotDependOnTheirNumber) {
  std::ofstream table(folder() / "pairs.tsv");
  table << "anchor\tpositive\n";
  for (int i = 0; i < 120; ++i) table << "count " << i << "\tvalue of " << i << "\n";
  table.close();
  const std::vector<std::string> task = {"task.name=pairs", "task.kind=contrastive",
                                         "task.text=[\"anchor\", \"positive\"]", "task.held_out=0.2",
                                         fmt::format("task.train=\"{}\"", (folder() / "pairs.tsv").string())};
  for (const int processes : {1, 3}) {
    std::vector<std::string> all = command(fmt::format("of-{}", processes), task);
    all[1] = "finetune";
    const ProgramResult result = run_processes(processes, all);
    ASSERT_EQ(result.code, 0) << result.output;
  }
  expect_the_same("of-1", "of-3", 1e-5);
}

// Each process asks its own copy of the teacher.
TEST_F(Processes, StudentsDoNotDependOnTheirNumber) {
  const std::vector<std::string> settings = {
      fmt::format("distillation.teacher=\"{}\"", (folder() / "teacher").string()), "distillation.logits=1",
      "distillation.hidden=1", "distillation.all_layers=true"};
  train(1, "teacher", {"tensorized.enabled=false", "run.seed=7"});
  for (const int processes : {1, 3}) train(processes, fmt::format("student-{}", processes), settings);
  expect_the_same("student-1", "student-3", 1e-5);
}

// The processes ask the teacher together, and one of them keeps the answers.
TEST_F(Processes, KeptAnswersDoNotDependOnTheirNumber) {
  std::ofstream table(folder() / "texts.tsv");
  table << "text\n";
  for (int i = 0; i < 120; ++i) table << "count the value of " << i << "\n";
  table.close();
  train(1, "teacher", {"tensorized.enabled=false", "run.seed=7"});
  for (const int processes : {1, 3}) {
    const std::string run = fmt::format("of-{}", processes);
    std::vector<std::string> all = command(
        run, {"task.name=texts", "task.kind=contrastive", "task.text=[\"text\"]",
              fmt::format("task.train=\"{}\"", (folder() / "texts.tsv").string()), "phase.1.length=16",
              "model.dropout=0", "model.attention_dropout=0", "distillation.vectors=1", "task.held_out=0.3",
              fmt::format("distillation.teacher=\"{}\"", (folder() / "teacher").string()),
              fmt::format("distillation.cache=\"{}.h5\"", (folder() / run).string())});
    all[1] = "finetune";
    const ProgramResult result = run_processes(processes, all);
    ASSERT_EQ(result.code, 0) << result.output;
    EXPECT_TRUE(std::filesystem::exists(folder() / (run + ".h5")));
  }
  expect_the_same("of-1", "of-3", 1e-5);
}

TEST_F(Processes, ReplacedTokensDoNotDependOnTheirNumber) {
  for (const int processes : {1, 3})
    train(processes, fmt::format("run-{}", processes), {"model.head=replaced_tokens", "generator.width=0.5"});
  expect_the_same("run-1", "run-3", 1e-5);
}

// One clock decides for all.
TEST_F(Processes, CheckpointsByTheClockAreOfAll) {
  const std::vector<std::string> often = {"run.checkpoint_minutes=1e-9", "run.keep_checkpoints=99",
                                          "run.evaluation_interval=0"};
  train(2, "often", often);
  train(2, "rare", {"run.evaluation_interval=0"});
  EXPECT_EQ(checkpoint_steps(folder() / "often/checkpoints").size(), 12u);
  EXPECT_EQ(checkpoint_steps(folder() / "rare/checkpoints").size(), 2u);
  expect_equal_checkpoints(newest("often"), newest("rare"));
}

TEST_F(Processes, TheOthersLogToFiles) {
  train(2, "logged", {"phase.0.steps=2", "phase.0.warmup_steps=0", "phase.1.steps=1"});
  std::ifstream file(folder() / "logged" / "processes" / "process-1.log");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  EXPECT_THAT(text, HasSubstr("2 processes, MPI; this is process 1 with "));
  EXPECT_THAT(text, HasSubstr("step 3 of 3"));
}

}  // namespace
}  // namespace comera::test
