// Whole runs of one, two, three and four ranks, beside one another.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <signal.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "checkpoints/float8_scales.h"
#include "checkpoints/rank_history.h"
#include "kernels/backends/backends.h"
#include "tests/distributed/mpirun.h"
#include "tests/training/float8_overrides.h"

namespace comera::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class Ranks : public TrainingFixture {
 protected:
  void SetUp() override {
    if (const std::string reason = Mpirun::missing(); !reason.empty()) GTEST_SKIP() << reason;
  }

  // Five packs a step: two and four ranks have shares of different size.
  std::vector<std::string> command(const std::string& run, const std::vector<std::string>& overrides,
                                   const std::vector<std::string>& options = {}) const {
    std::vector<std::string> all = {COMERA_PROGRAM, "pretrain", write_recipe().string(), "--output",
                                    (folder() / run).string()};
    std::vector<std::string> settings = {
        "phase.0.packs_per_step=5",   "phase.1.packs_per_step=5", "phase.0.tokens_per_pack=64",
        "phase.1.tokens_per_pack=64", "run.log_interval=1",       "run.threads=1",
        "run.checkpoint_interval=0",  "model.dropout=0.1",        "model.attention_dropout=0.1"};
    settings.insert(settings.end(), overrides.begin(), overrides.end());
    for (const std::string& setting : settings) all.insert(all.end(), {"--set", setting});
    all.insert(all.end(), options.begin(), options.end());
    return all;
  }
  void train(int ranks, const std::string& run, const std::vector<std::string>& overrides,
             const std::vector<std::string>& options = {}) const {
    const ProgramResult result = run_ranks(ranks, command(run, overrides, options));
    ASSERT_EQ(result.code, 0) << result.output;
  }

  std::vector<nlohmann::json> lines(const std::string& run) const {
    std::ifstream file(folder() / run / "metrics.jsonl");
    std::vector<nlohmann::json> all;
    for (std::string line; std::getline(file, line);) all.push_back(nlohmann::json::parse(line));
    return all;
  }
  fs::path newest(const std::string& run) const {
    return find_latest(folder() / run / "checkpoints", ResumeMode::newest)->path;
  }

  void expect_the_same(const std::string& a, const std::string& b, double tolerance) const {
    const auto first = lines(a), second = lines(b);
    ASSERT_GT(first.size(), 0u);
    ASSERT_EQ(first.size(), second.size());
    for (std::size_t i = 0; i < first.size(); ++i)
      for (const char* key :
           {"loss", "gradient_norm", "validation_loss", "validation_accuracy", "unigram_loss"}) {
        ASSERT_EQ(first[i].contains(key), second[i].contains(key));
        if (!first[i].contains(key)) continue;
        const double value = first[i][key];
        // One hit more or less where narrow types round otherwise.
        const double room = key == std::string("validation_accuracy") ? 5 : 0;
        EXPECT_NEAR(second[i][key], value, tolerance * (std::abs(value) + room))
            << b << ", " << key << " of step " << first[i]["step"];
      }
    EXPECT_EQ(first.back()["step"], second.back()["step"]);
    const CheckpointReader one(newest(a)), other(newest(b));
    EXPECT_EQ(one.attributes("/data"), other.attributes("/data"));
    EXPECT_EQ(one.integer("/trainer", "tokens"), other.integer("/trainer", "tokens"));
    EXPECT_EQ(held_ranks(one), held_ranks(other));
    // Scales and magnitudes of 8-bit operands are of all packs, not of a rank's.
    for (const auto& tensor : one.tensors()) {
      if (!tensor.path.starts_with(float8_at)) continue;
      const auto values = one.read_values<float>(tensor.path), others = other.read_values<float>(tensor.path);
      ASSERT_EQ(values.size(), others.size());
      for (std::size_t i = 0; i < values.size(); ++i)
        EXPECT_NEAR(others[i], values[i], 0.02 * values[i]) << tensor.path << ' ' << i;
    }
  }
};

std::vector<std::string> pruning() {
  return {"phase.0.steps=8",
          "phase.1.steps=12",
          "phase.0.objective=early",
          "phase.1.objective=late",
          "phase.1.learning_rate={cores=1e-3, gates=0.15, rest=1e-3}",
          "phase.1.schedule=constant",
          "phase.1.adaptation.threshold=0.5",
          "phase.1.adaptation.target_ratio=0.6",
          "phase.1.adaptation.compact_interval=3"};
}

TEST_F(Ranks, MetricsSayHowLongRanksWaited) {
  train(1, "one", {});
  for (const nlohmann::json& line : lines("one")) EXPECT_FALSE(line.contains("waiting_ms")) << line;
  train(2, "two", {});  // with five packs a step, of which the first rank has three
  int counted = 0;
  for (const nlohmann::json& line : lines("two")) {
    if (!line.contains("ms_per_step")) continue;
    const double sums = line.at("waiting_ms").at("sums"), ranks = line.at("waiting_ms").at("ranks");
    EXPECT_GT(sums, 0) << line;
    EXPECT_GT(ranks, 0) << line;
    EXPECT_LT(sums + ranks, line.at("ms_per_step")) << line;
    ++counted;
  }
  EXPECT_GT(counted, 1);
}

TEST_F(Ranks, EarlyAndLateStagesDoNotDependOnTheirNumber) {
  train(1, "one", pruning());
  const CheckpointReader reader(newest("one"));
  ASSERT_NE(held_ranks(reader), load_rank_history(reader).stages.front().ranks) << "nothing was compacted";
  for (const int ranks : {2, 4}) {
    const std::string run = fmt::format("of-{}", ranks);
    train(ranks, run, pruning());
    expect_the_same("one", run, 1e-5);
  }
}

TEST_F(Ranks, MuonDoesNotDependOnTheirNumber) {
  std::vector<std::string> muon = pruning();
  for (const char* more :
       {"optim.name=muon", "phase.0.learning_rate={cores=0.01, embedding=1e-3, gates=1e-3, rest=1e-3}",
        "phase.1.learning_rate={cores=0.01, embedding=1e-3, gates=0.15, rest=1e-3}"})
    muon.emplace_back(more);
  train(1, "one", muon);
  train(2, "two", muon);
  expect_the_same("one", "two", 1e-4);  // directions of small singular values follow rounding
}

// Each process finds the subspaces of some of the matrices.
TEST_F(Ranks, LambAndGaloreDoNotDependOnTheirNumber) {
  for (const std::vector<std::string>& optimizer :
       {std::vector<std::string>{"optim.name=lamb"},
        {"optim.name=galore", "optim.galore={rank=8, update_proj_gap=4}"}}) {
    std::vector<std::string> overrides = pruning();
    overrides.insert(overrides.end(), optimizer.begin(), optimizer.end());
    const std::string name = optimizer.front();
    train(1, name + "-one", overrides);
    for (const int ranks : {2, 3}) {
      const std::string run = fmt::format("{}-{}", name, ranks);
      train(ranks, run, overrides);
      expect_the_same(name + "-one", run, 1e-4);  // subspaces follow rounding
    }
  }
}

// Also stopped between two merges.
TEST_F(Ranks, AdaptersDoNotDependOnTheirNumberAndContinueToTheBit) {
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

TEST_F(Ranks, DenseModelsDoNotDependOnTheirNumber) {
  const std::vector<std::string> dense = {"tensorized.enabled=false", "phase.0.steps=12", "phase.1.steps=8",
                                          "distributed.bucket_mebibytes=1"};
  train(1, "one", dense);
  for (const int ranks : {2, 4}) {
    const std::string run = fmt::format("of-{}", ranks);
    train(ranks, run, dense);
    expect_the_same("one", run, 1e-5);
  }
}

TEST_F(Ranks, NarrowTypesDoNotDependOnTheirNumber) {
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

TEST_F(Ranks, AsManyTwiceGiveTheSameBits) {
  train(3, "once", pruning());
  train(3, "again", pruning());
  expect_equal_checkpoints(newest("once"), newest("again"));
}

// Three begin, two go on, and one ends; the same number goes on to the same bits.
TEST_F(Ranks, AnotherNumberGoesOn) {
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
TEST_F(Ranks, FineTuningIsScoredWhole) {
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
  for (const int ranks : {1, 3}) {
    const std::string run = fmt::format("of-{}", ranks);
    std::vector<std::string> all = command(run, task);
    all[1] = "finetune";
    const ProgramResult result = run_ranks(ranks, all);
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

// Processes of the job that were started with this output.
std::vector<pid_t> processes_of(const std::string& run) {
  std::vector<pid_t> found;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream file(entry.path() / "cmdline");
    const std::string line((std::istreambuf_iterator<char>(file)), {});
    if (line.starts_with(COMERA_PROGRAM) && line.find(run) != std::string::npos)
      found.push_back(std::stoi(name));
  }
  std::ranges::sort(found);
  return found;
}

std::vector<std::string> long_run() {
  return {"phase.0.steps=4000",        "phase.0.warmup_steps=0", "run.checkpoint_interval=2",
          "run.evaluation_interval=0", "run.log_interval=50",    "distributed.silence_seconds=3"};
}

void wait_for_checkpoint(const fs::path& run) {
  for (int i = 0; i < 600 && checkpoint_steps(run / "checkpoints").empty(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
}

// Killed, or stopped for good, at random moments: the job ends by itself, and its last checkpoint is good.
TEST_F(Ranks, ADeadRankEndsTheJobWhichGoesOn) {
  std::mt19937 random(7);
  for (const int signal : {SIGKILL, SIGSTOP, SIGKILL}) {
    const std::string run = fmt::format("dead-{}-{}", signal, random() % 1000);
    Mpirun job(3, command(run, long_run()));
    wait_for_checkpoint(folder() / run);
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 700));
    const std::vector<pid_t> ranks = processes_of((folder() / run).string());
    ASSERT_EQ(ranks.size(), 3u);
    const pid_t victim = ranks[random() % 3];
    kill(victim, signal);
    const auto start = std::chrono::steady_clock::now();
    const ProgramResult result = job.wait();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    EXPECT_LT(seconds, 25);
    EXPECT_NE(result.code, 0);
    if (signal == SIGSTOP) {
      EXPECT_THAT(result.output, HasSubstr("comera: error: nothing has been heard of rank "));
      EXPECT_THAT(result.output, HasSubstr("the last good checkpoint is "));
    } else {
      EXPECT_THAT(result.output, HasSubstr("exited on signal 9"));
    }
    EXPECT_TRUE(processes_of((folder() / run).string()).empty()) << "a rank is left";
    const std::int64_t last = checkpoint_steps(folder() / run / "checkpoints").back();
    for (const int number : {2, 1}) {
      const ProgramResult more = run_ranks(
          number, command(run, long_run(),
                          {"--resume", "auto", "--stop-after", std::to_string(last + 4 * (3 - number))}));
      EXPECT_EQ(more.code, 0) << more.output;
    }
    EXPECT_EQ(checkpoint_steps(folder() / run / "checkpoints").back(), last + 8);
  }
}

// Two hosts of their own on this machine, if it lets us make them, and a link between them that goes down.
TEST_F(Ranks, ALinkThatStopsEndsTheJobWhichGoesOn) {
  const ProgramResult check = Mpirun({COMERA_TWO_HOSTS, "--check"}, {}).wait();
  if (check.code != 0) GTEST_SKIP() << check.output;
  std::mt19937 random(11);
  for (int i = 0; i < 2; ++i) {
    const std::string run = fmt::format("cut-{}", i);
    Mpirun job({COMERA_TWO_HOSTS, "--rate", "1gbit"}, command(run, long_run()));
    wait_for_checkpoint(folder() / run);
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 700));
    ASSERT_EQ(processes_of((folder() / run).string()).size(), 2u);
    kill(job.pid(), SIGUSR2);
    const auto start = std::chrono::steady_clock::now();
    const ProgramResult result = job.wait();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    EXPECT_LT(seconds, 40);
    EXPECT_NE(result.code, 0);
    EXPECT_THAT(result.output,
                HasSubstr("comera: error: nothing has been heard of rank 1 (host-b) for 3 s: it has died or "
                          "the network to it is broken; the last good checkpoint is "));
    EXPECT_THAT(result.output, testing::Not(HasSubstr("two_hosts: error: killed")));
    EXPECT_TRUE(processes_of((folder() / run).string()).empty()) << "a rank is left";
    const std::int64_t last = checkpoint_steps(folder() / run / "checkpoints").back();
    for (const int number : {2, 1}) {
      const ProgramResult more = run_ranks(
          number, command(run, long_run(),
                          {"--resume", "auto", "--stop-after", std::to_string(last + 4 * (3 - number))}));
      EXPECT_EQ(more.code, 0) << more.output;
    }
  }
}

// As Slurm asks before it takes the machines away: mpirun hands SIGUSR1 on to all ranks.
TEST_F(Ranks, ASignalStopsAllAtTheSameStep) {
  Mpirun job(3, command("asked", long_run()));
  wait_for_checkpoint(folder() / "asked");
  kill(job.pid(), SIGUSR1);
  const ProgramResult result = job.wait();
  EXPECT_EQ(result.code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("stopped at step "));
  const std::size_t said = result.output.find("stopping after this step");
  ASSERT_NE(said, std::string::npos);
  EXPECT_EQ(result.output.find("stopping after this step", said + 1), std::string::npos)
      << "said more than once";
}

TEST_F(Ranks, DriftIsFoundBeforeItIsSaved) {
  const std::string run = (folder() / "drift").string();
  const ProgramResult result =
      run_ranks(2, {COMERA_WORKER, "drift", write_recipe().string(), fmt::format("run.output=\"{}\"", run),
                    "run.threads=1", "run.checkpoint_interval=2"});
  EXPECT_EQ(result.code, 1) << result.output;
  EXPECT_THAT(result.output, HasSubstr("rank 1 has another model than rank 0"));
  EXPECT_THAT(result.output, HasSubstr("step-00000002.h5; mend that and go on with --resume auto"));
  EXPECT_EQ(checkpoint_steps(folder() / "drift" / "checkpoints"), std::vector<std::int64_t>{2});
}

TEST_F(Ranks, AnErrorOnOneEndsAll) {
  const std::string run = (folder() / "hit").string();
  const ProgramResult result =
      run_ranks(3, {COMERA_WORKER, "hit", write_recipe().string(), fmt::format("run.output=\"{}\"", run),
                    "run.threads=1", "run.checkpoint_interval=2", "phase.0.packs_per_step=5",
                    "phase.1.packs_per_step=5"});
  EXPECT_EQ(result.code, 1) << result.output;
  EXPECT_THAT(result.output,
              testing::ContainsRegex("comera: error: rank 1 \\([^)]*\\): this rank's disk has gone; the "
                                     "last good checkpoint is [^ ]*step-00000002.h5"));
  EXPECT_EQ(result.output.find("has gone"), result.output.rfind("has gone")) << result.output;
}

// As Ctrl-Z, or a batch system that gives the machine to another job for a while.
TEST_F(Ranks, AJobThatWasSuspendedGoesOn) {
  Mpirun job(3, command("suspended", long_run()));
  wait_for_checkpoint(folder() / "suspended");
  const auto ranks = processes_of((folder() / "suspended").string());
  ASSERT_EQ(ranks.size(), 3u);
  for (const pid_t rank : ranks) kill(rank, SIGSTOP);
  std::this_thread::sleep_for(std::chrono::seconds(5));
  for (const pid_t rank : ranks) kill(rank, SIGCONT);
  const std::int64_t before = checkpoint_steps(folder() / "suspended" / "checkpoints").back();
  for (int i = 0; i < 100 && checkpoint_steps(folder() / "suspended" / "checkpoints").back() < before + 10;
       ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  kill(job.pid(), SIGUSR1);
  const ProgramResult result = job.wait();
  EXPECT_EQ(result.code, 0) << result.output;
  EXPECT_GE(checkpoint_steps(folder() / "suspended" / "checkpoints").back(), before + 10);
}

TEST_F(Ranks, WhoIsStartedOtherwiseThanTheFirstIsRefused) {
  const auto started = [this](const std::vector<std::string>& overrides,
                              const std::vector<std::string>& options) {
    std::vector<std::string> all = command("other", {}, {"--stop-after", "3"});
    all.insert(all.end(), {":", "-np", "1"});
    const std::vector<std::string> second = command("other", overrides, options);
    all.insert(all.end(), second.begin(), second.end());
    const ProgramResult result = run_ranks(1, all);
    EXPECT_EQ(result.code, 2) << result.output;
    return result.output;
  };
  EXPECT_THAT(started({}, {"--stop-after", "5"}),
              HasSubstr("rank 1 was started with 'pretrain --resume never --stop-after 5', but rank 0 with "
                        "'pretrain --resume never --stop-after 3'; give all the same"));
  EXPECT_THAT(started({"phase.1.steps=21"}, {"--stop-after", "3"}),
              HasSubstr("rank 1 was started with another recipe than rank 0; give all the same: it has "
                        "phase.1.steps = 21 instead of "));
}

// Machines with folders of the same name, which hold something else on the second.
TEST_F(Ranks, OtherFilesOfTheSameNameAreRefused) {
  const auto make = [this](const char* machine, const std::vector<std::string>& command) {
    std::vector<std::string> all = {"/usr/bin/env", "-C", (folder() / machine).string(), COMERA_PROGRAM};
    all.insert(all.end(), command.begin(), command.end());
    const ProgramResult result = run_ranks(1, all);
    ASSERT_EQ(result.code, 0) << result.output;
  };
  const std::string source = (corpus() / "source").string();
  const auto make_shards = [&](const char* machine, const char* held_out) {
    make(machine, {"data", "--input", source, "--tokenizer", "tok.model", "--output", "shards", "--overwrite",
                   "--held-out", held_out});
  };
  for (const char* machine : {"one", "two"}) {
    fs::create_directories(folder() / machine);
    fs::copy(corpus() / "tok.model", folder() / machine);
    make_shards(machine, "0.2");
  }
  const auto on_both = [this](const std::string& run, std::vector<std::string> settings) {
    for (const char* setting : {"data.train=shards", "data.validation=shards", "data.tokenizer=tok.model",
                                "phase.0.steps=2", "phase.0.warmup_steps=0", "phase.1.steps=1"})
      settings.emplace_back(setting);
    std::vector<std::string> all;
    for (const char* machine : {"one", "two"}) {
      if (!all.empty()) all.insert(all.end(), {":", "-np", "1"});
      all.insert(all.end(), {"/usr/bin/env", "-C", (folder() / machine).string()});
      const std::vector<std::string> own = command(run, settings);
      all.insert(all.end(), own.begin(), own.end());
    }
    return run_ranks(1, all);
  };
  const auto expect_refusal = [&](const std::string& what, const std::vector<std::string>& settings = {}) {
    const ProgramResult result = on_both("refused", settings);
    EXPECT_EQ(result.code, 2) << result.output;
    EXPECT_THAT(result.output, HasSubstr("comera: error: rank 1 has " + what));
    EXPECT_FALSE(fs::exists(folder() / "refused"));
  };
  const ProgramResult same = on_both("same", {});
  EXPECT_EQ(same.code, 0) << same.output;
  const std::string give = " than rank 0; give all machines the same files";
  fs::rename(folder() / "two/shards", folder() / "two/as-before");
  make_shards("two", "0.4");
  expect_refusal("something else in shards/train-00000.h5 (data.train)" + give);
  fs::copy(folder() / "two/as-before/train-00000.h5", folder() / "two/shards",
           fs::copy_options::overwrite_existing);
  expect_refusal("something else in shards/validation-00000.h5 (data.validation)" + give);
  fs::remove_all(folder() / "two/shards");
  fs::rename(folder() / "two/as-before", folder() / "two/shards");
  // Weights to begin with, of another run.
  for (const char* machine : {"one", "two"}) fs::copy(newest("same"), folder() / machine / "start.h5");
  EXPECT_EQ(on_both("begun", {"run.initial_checkpoint=start.h5"}).code, 0);
  train(1, "other", {"run.seed=2", "phase.0.steps=2", "phase.0.warmup_steps=0", "phase.1.steps=1"});
  fs::copy(newest("other"), folder() / "two/start.h5", fs::copy_options::overwrite_existing);
  expect_refusal("something else in start.h5 (run.initial_checkpoint)" + give,
                 {"run.initial_checkpoint=start.h5"});
  // Another tokenizer, and shards that were made with it.
  make("two",
       {"tokenizer", "--input", source, "--output", "tok.model", "--vocabulary", "320", "--overwrite"});
  make_shards("two", "0.2");
  expect_refusal("something else in tok.model (data.tokenizer)" + give);
}

TEST_F(Ranks, OtherTablesOfTheSameNameAreRefused) {
  for (const char* machine : {"one", "two"}) {
    fs::create_directories(folder() / machine);
    for (const char* name : {"train.tsv", "dev.tsv"}) {
      std::ofstream stream(folder() / machine / name);
      stream << "text\tlabel\n";
      for (int i = 0; i < 40; ++i)
        stream << fmt::format("count total {}\t{}\n", i % 7, i % 2 == 0 ? "same" : "other");
    }
  }
  const auto on_both = [this] {
    std::vector<std::string> all;
    for (const char* machine : {"one", "two"}) {
      if (!all.empty()) all.insert(all.end(), {":", "-np", "1"});
      all.insert(all.end(), {"/usr/bin/env", "-C", (folder() / machine).string()});
      std::vector<std::string> own =
          command("refused", {"task.name=words", "task.text=text", "task.label=label", "task.train=train.tsv",
                              "task.validation=dev.tsv"});
      own[1] = "finetune";
      all.insert(all.end(), own.begin(), own.end());
    }
    return run_ranks(1, all);
  };
  std::ofstream(folder() / "two/dev.tsv", std::ios::app) << "one more\tsame\n";
  ProgramResult result = on_both();
  EXPECT_EQ(result.code, 2) << result.output;
  EXPECT_THAT(result.output, HasSubstr("rank 1 has something else in dev.tsv (task.validation) than rank 0"));
  // The same texts with labels of the same numbers and other names.
  fs::copy(folder() / "one/dev.tsv", folder() / "two", fs::copy_options::overwrite_existing);
  for (const char* name : {"train.tsv", "dev.tsv"}) {
    std::ofstream stream(folder() / "two" / name);
    stream << "text\tlabel\n";
    for (int i = 0; i < 40; ++i)
      stream << fmt::format("count total {}\t{}\n", i % 7, i % 2 == 0 ? "yes" : "no");
  }
  result = on_both();
  EXPECT_EQ(result.code, 2) << result.output;
  EXPECT_THAT(result.output, HasSubstr("rank 1 has something else in the labels in train.tsv (task.label)"));
}

// One clock decides for all.
TEST_F(Ranks, CheckpointsByTheClockAreOfAll) {
  const std::vector<std::string> often = {"run.checkpoint_minutes=1e-9", "run.keep_checkpoints=99",
                                          "run.evaluation_interval=0"};
  train(2, "often", often);
  train(2, "rare", {"run.evaluation_interval=0"});
  EXPECT_EQ(checkpoint_steps(folder() / "often/checkpoints").size(), 12u);
  EXPECT_EQ(checkpoint_steps(folder() / "rare/checkpoints").size(), 2u);
  expect_equal_checkpoints(newest("often"), newest("rare"));
}

// An older CPU adds in other lanes.
TEST_F(Ranks, OtherInstructionSetsAreRefused) {
  if (std::string(instruction_set()) == "v3") GTEST_SKIP() << "this CPU has no other instruction set";
  std::vector<std::string> all = command("mixed", {});
  all.insert(all.end(), {":", "-np", "1", "/usr/bin/env", "COMERA_ISA=v3"});
  const std::vector<std::string> second = command("mixed", {});
  all.insert(all.end(), second.begin(), second.end());
  const ProgramResult result = run_ranks(1, all);
  EXPECT_EQ(result.code, 2) << result.output;
  EXPECT_THAT(result.output, HasSubstr("rank 1 would compute with v3, rank 0 with v4"));
  EXPECT_THAT(result.output, HasSubstr("COMERA_ISA=v3"));
}

TEST_F(Ranks, TooManyForAStepAreRefused) {
  const ProgramResult result = run_ranks(3, command("refused", {"phase.1.packs_per_step=2"}));
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.output, HasSubstr("phase.1.packs_per_step = 2, but the job has 3 ranks"));
  EXPECT_FALSE(fs::exists(folder() / "refused"));
}

TEST_F(Ranks, TheOthersLogToFiles) {
  train(2, "logged", {"phase.0.steps=2", "phase.0.warmup_steps=0", "phase.1.steps=1"});
  std::ifstream file(folder() / "logged" / "ranks" / "rank-1.log");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  EXPECT_THAT(text, HasSubstr("2 ranks, MPI; this is rank 1 with "));
  EXPECT_THAT(text, HasSubstr("step 3 of 3"));
}

}  // namespace
}  // namespace comera::test
