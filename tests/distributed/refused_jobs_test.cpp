// Jobs whose processes were not given the same are refused before they begin.
#include "kernels/backends/backends.h"
#include "tests/distributed/processes.h"

namespace comera::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

TEST_F(Processes, WhoIsStartedOtherwiseThanTheFirstIsRefused) {
  const auto started = [this](const std::vector<std::string>& overrides,
                              const std::vector<std::string>& options) {
    std::vector<std::string> all = command("other", {}, {"--stop-after", "3"});
    all.insert(all.end(), {":", "-np", "1"});
    const std::vector<std::string> second = command("other", overrides, options);
    all.insert(all.end(), second.begin(), second.end());
    const ProgramResult result = run_processes(1, all);
    EXPECT_EQ(result.code, 2) << result.output;
    return result.output;
  };
  EXPECT_THAT(started({}, {"--stop-after", "5"}),
              HasSubstr("process 1 was started with 'pretrain --resume never --stop-after 5', but process 0 "
                        "with 'pretrain --resume never --stop-after 3'; give all processes the same"));
  EXPECT_THAT(started({"phase.1.steps=21"}, {"--stop-after", "3"}),
              HasSubstr("process 1 was started with another recipe than process 0; give all processes the "
                        "same: it has phase.1.steps = 21 instead of "));
}

// Such a process would end well, and the others would wait for it for ever.
TEST_F(Processes, ACommandThatDoesNotTrainIsNoneOfSeveral) {
  std::vector<std::string> all = command("other", {}, {"--stop-after", "3"});
  all.insert(all.end(),
             {":", "-np", "1", COMERA_PROGRAM, "inspect", write_recipe().string(), "--vocabulary", "400"});
  const ProgramResult result = run_processes(1, all);
  EXPECT_EQ(result.code, 2) << result.output;
  EXPECT_THAT(result.output,
              HasSubstr("comera inspect runs in one process, but mpirun or srun has started several"));
  EXPECT_THAT(run_processes(2, {COMERA_PROGRAM, "clicks", "eval", "runs/clicks"}).output,
              HasSubstr("comera clicks eval runs in one process"));
  EXPECT_EQ(run_processes(2, {COMERA_PROGRAM, "--version"}).code, 0);
  EXPECT_THAT(run_processes(2, {COMERA_PROGRAM, "clicks", "eval", "run"}).output,
              HasSubstr("comera clicks eval runs in one process, but mpirun or srun has started several"));
}

// Machines with folders of the same name, which hold something else on the second.
TEST_F(Processes, OtherFilesOfTheSameNameAreRefused) {
  const auto make = [this](const char* machine, const std::vector<std::string>& command) {
    std::vector<std::string> all = {"/usr/bin/env", "-C", (folder() / machine).string(), COMERA_PROGRAM};
    all.insert(all.end(), command.begin(), command.end());
    const ProgramResult result = run_processes(1, all);
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
    return run_processes(1, all);
  };
  const auto expect_refusal = [&](const std::string& what, const std::vector<std::string>& settings = {}) {
    const ProgramResult result = on_both("refused", settings);
    EXPECT_EQ(result.code, 2) << result.output;
    EXPECT_THAT(result.output, HasSubstr("comera: error: process 1 has " + what));
    EXPECT_FALSE(fs::exists(folder() / "refused"));
  };
  const ProgramResult same = on_both("same", {});
  EXPECT_EQ(same.code, 0) << same.output;
  const std::string give = " than process 0; give all machines the same files";
  fs::rename(folder() / "two/shards", folder() / "two/as-before");
  make_shards("two", "0.4");
  expect_refusal("other contents in shards/train-00000.h5 (data.train)" + give);
  fs::copy(folder() / "two/as-before/train-00000.h5", folder() / "two/shards",
           fs::copy_options::overwrite_existing);
  expect_refusal("other contents in shards/validation-00000.h5 (data.validation)" + give);
  fs::remove_all(folder() / "two/shards");
  fs::rename(folder() / "two/as-before", folder() / "two/shards");
  // Weights to begin with, of another run.
  for (const char* machine : {"one", "two"}) fs::copy(newest("same"), folder() / machine / "start.h5");
  EXPECT_EQ(on_both("begun", {"run.initial_checkpoint=start.h5"}).code, 0);
  train(1, "other", {"run.seed=2", "phase.0.steps=2", "phase.0.warmup_steps=0", "phase.1.steps=1"});
  fs::copy(newest("other"), folder() / "two/start.h5", fs::copy_options::overwrite_existing);
  expect_refusal("other contents in start.h5 (run.initial_checkpoint)" + give,
                 {"run.initial_checkpoint=start.h5"});
  // Another tokenizer, and shards that were made with it.
  make("two",
       {"tokenizer", "--input", source, "--output", "tok.model", "--vocabulary", "320", "--overwrite"});
  make_shards("two", "0.2");
  expect_refusal("other contents in tok.model (data.tokenizer)" + give);
}

TEST_F(Processes, OtherTablesOfTheSameNameAreRefused) {
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
    return run_processes(1, all);
  };
  std::ofstream(folder() / "two/dev.tsv", std::ios::app) << "one more\tsame\n";
  ProgramResult result = on_both();
  EXPECT_EQ(result.code, 2) << result.output;
  EXPECT_THAT(result.output,
              HasSubstr("process 1 has other contents in dev.tsv (task.validation) than process 0"));
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
  EXPECT_THAT(result.output,
              HasSubstr("process 1 has other contents in the labels in train.tsv (task.label)"));
}

// An older CPU adds in other lanes.
TEST_F(Processes, OtherInstructionSetsAreRefused) {
  if (std::string(instruction_set()) == "v3") GTEST_SKIP() << "this CPU has no other instruction set";
  std::vector<std::string> all = command("mixed", {});
  all.insert(all.end(), {":", "-np", "1", "/usr/bin/env", "COMERA_ISA=v3"});
  const std::vector<std::string> second = command("mixed", {});
  all.insert(all.end(), second.begin(), second.end());
  const ProgramResult result = run_processes(1, all);
  EXPECT_EQ(result.code, 2) << result.output;
  EXPECT_THAT(result.output, HasSubstr("process 1 would compute with v3, process 0 with v4"));
  EXPECT_THAT(result.output, HasSubstr("COMERA_ISA=v3"));
}

TEST_F(Processes, TooManyForAStepAreRefused) {
  const ProgramResult result = run_processes(3, command("refused", {"phase.1.micro_batches_per_step=2"}));
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.output, HasSubstr("phase.1.micro_batches_per_step = 2, but the job has 3 processes"));
  EXPECT_FALSE(fs::exists(folder() / "refused"));
}

}  // namespace
}  // namespace comera::test
