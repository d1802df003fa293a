#include "training/run/run_directory.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "checkpoints/checkpoint_directory.h"
#include "kernels/core/check.h"
#include "tests/support/temporary_folder.h"

namespace comera {
namespace {

using test::error_of;
using test::read_text;
using test::TemporaryFolder;
using testing::HasSubstr;

// As a run does: the recipe comes after the folder of checkpoints.
void begin_run(const std::filesystem::path& path) {
  const RunDirectory run(path, RunMode::fresh);
  std::filesystem::create_directories(run.checkpoints());
  run.write_recipe("a = 1\n");
}

TEST(RunDirectory, IsMadeAndHoldsTheRecipe) {
  TemporaryFolder folder;
  {
    const RunDirectory run(folder / "deep/run", RunMode::fresh);
    EXPECT_FALSE(run.resumes());
    std::filesystem::create_directories(run.checkpoints());
    run.write_recipe("a = 1\n");
    run.write_recipe("a = 2\n");
    EXPECT_EQ(read_text(run.recipe()), "a = 2\n");
    EXPECT_EQ(run.checkpoints(), folder / "deep/run/checkpoints");
  }
  EXPECT_TRUE(RunDirectory(folder / "deep/run", RunMode::resume).resumes());
  EXPECT_TRUE(RunDirectory(folder / "deep/run", RunMode::automatic).resumes());
  EXPECT_FALSE(RunDirectory(folder / "other", RunMode::automatic).resumes());
}

TEST(RunDirectory, AnotherRunIsNotOverwritten) {
  TemporaryFolder folder;
  begin_run(folder / "run");
  EXPECT_THROW(RunDirectory(folder / "run", RunMode::fresh), UsageError);
  EXPECT_THAT(error_of([&] { RunDirectory(folder / "run", RunMode::fresh); }),
              HasSubstr("already holds a run"));
  EXPECT_EQ(read_text(folder / "run/recipe.toml"), "a = 1\n");
}

TEST(RunDirectory, WithoutARunNothingStaysOfWhatWasMade) {
  TemporaryFolder folder;
  { const RunDirectory run(folder / "runs/a", RunMode::fresh); }
  EXPECT_FALSE(std::filesystem::exists(folder / "runs"));
  std::filesystem::create_directories(folder / "mine");
  { const RunDirectory run(folder / "mine", RunMode::fresh); }
  EXPECT_TRUE(std::filesystem::is_empty(folder / "mine"));
}

TEST(RunDirectory, ThereMustBeARunToResume) {
  TemporaryFolder folder;
  EXPECT_THAT(error_of([&] { RunDirectory(folder / "run", RunMode::resume); }),
              HasSubstr("holds no run to resume"));
  EXPECT_FALSE(std::filesystem::exists(folder / "run"));
}

// Whatever of a run is there, it is not begun anew over it.
TEST(RunDirectory, AnyFileOfARunMakesItOne) {
  for (const char* name : {"metrics.jsonl", "saved", "best.h5", "best-phase-1.h5", "nonfinite.h5",
                           "collapsed.h5", "checkpoints/step-00000010.h5"}) {
    TemporaryFolder folder;
    std::filesystem::create_directories(folder / "run/checkpoints");
    folder.write(std::string("run/") + name, "of the run");
    EXPECT_THAT(error_of([&] { RunDirectory(folder / "run", RunMode::fresh); }),
                HasSubstr("already holds a run"))
        << name;
    EXPECT_TRUE(RunDirectory(folder / "run", RunMode::automatic).resumes()) << name;
    EXPECT_EQ(read_text(folder / "run" / name), "of the run");
  }
}

// What stood in the directory before is neither removed nor written over, whether a run begins there or not.
TEST(RunDirectory, FilesOfTheUserStay) {
  TemporaryFolder folder;
  std::filesystem::create_directories(folder / "mine/processes");
  folder.write("mine/processes/process-1.log", "the user's");
  folder.write("mine/lock", "");
  {
    RunDirectory run(folder / "mine", RunMode::automatic);
    run.make_process_logs();
  }
  EXPECT_EQ(read_text(folder / "mine/processes/process-1.log"), "the user's");
  EXPECT_TRUE(std::filesystem::exists(folder / "mine/lock"));

  for (const auto& [name, content] :
       {std::pair{"lock", "notes"}, {"lock", "12 of them"}, {"recipe.toml", "[model]"}}) {
    TemporaryFolder other;
    std::filesystem::create_directories(other / "mine");
    other.write(std::string("mine/") + name, content);
    for (const RunMode mode : {RunMode::fresh, RunMode::automatic})
      EXPECT_THAT(error_of([&] { RunDirectory(other / "mine", mode); }), HasSubstr("choose another --output"))
          << name;
    EXPECT_EQ(read_text(other / "mine" / name), content);
  }

  TemporaryFolder linked;
  std::filesystem::create_directories(linked / "mine");
  linked.write("numbers", "17\n");
  std::filesystem::create_hard_link(linked / "numbers", linked / "mine/lock");
  EXPECT_THAT(error_of([&] { RunDirectory(linked / "mine", RunMode::fresh); }),
              HasSubstr("is not a run's lock"));
  EXPECT_EQ(read_text(linked / "numbers"), "17\n");
}

// Another command may write into the folder while a run begins there.
TEST(RunDirectory, WhatLivingProcessesWriteStays) {
  TemporaryFolder folder;
  const pid_t ended = fork();
  if (ended == 0) _exit(0);
  waitpid(ended, nullptr, 0);
  const std::string living = "run/.vectors.h5." + std::to_string(getppid()) + ".comera-tmp",
                    dead = "run/.vectors.h5." + std::to_string(ended) + ".comera-tmp";
  std::filesystem::create_directories(folder / "run");
  folder.write(living, "half");
  folder.write(dead, "half");
  const RunDirectory run(folder / "run", RunMode::automatic);
  EXPECT_TRUE(std::filesystem::exists(folder / living));
  EXPECT_FALSE(std::filesystem::exists(folder / dead));
}

// A lock whose number was cut or lost by the system is one all the same.
TEST(RunDirectory, ADamagedLockIsOne) {
  for (const std::string& content :
       {std::string("1234"), std::string("1\n"), std::string(5, '\0'), std::string("12\0\0\n", 5)}) {
    TemporaryFolder folder;
    std::filesystem::create_directories(folder / "mine");
    folder.write("mine/lock", content);
    EXPECT_FALSE(RunDirectory(folder / "mine", RunMode::automatic).resumes());
  }
}

TEST(RunDirectory, AnotherTokenizerIsNotWrittenOver) {
  TemporaryFolder folder;
  std::filesystem::create_directories(folder / "mine");
  folder.write("mine/tokenizer.model", "pieces");
  const RunDirectory run(folder / "mine", RunMode::fresh);
  EXPECT_NO_THROW(run.write_tokenizer("pieces"));
  for (const char* other : {"pieceS", "more pieces"})
    EXPECT_THAT(error_of([&] { run.write_tokenizer(other); }), HasSubstr("differs from data.tokenizer"));
  EXPECT_EQ(read_text(folder / "mine/tokenizer.model"), "pieces");
}

TEST(RunDirectory, LeftOversOfKilledProcessesAreRemoved) {
  TemporaryFolder folder;
  begin_run(folder / "run");
  for (const char* name : {".collapsed.h5.999999.comera-tmp", ".saved.999999.comera-tmp",
                           ".metrics.jsonl.999999.comera-tmp", ".best.h5.999999.comera-tmp"})
    folder.write(std::string("run/") + name, "half");
  { const RunDirectory run(folder / "run", RunMode::resume); }
  for (const auto& entry : std::filesystem::directory_iterator(folder / "run"))
    EXPECT_FALSE(entry.path().filename().string().starts_with(".")) << entry.path();
}

TEST(RunDirectory, ADirectoryInUseIsRefusedWithTheProcess) {
  TemporaryFolder folder;
  {
    const RunDirectory run(folder / "run", RunMode::fresh);
    for (const RunMode mode : {RunMode::fresh, RunMode::automatic})
      EXPECT_THAT(error_of([&] { RunDirectory(folder / "run", mode); }),
                  HasSubstr("is in use by another run (process " + std::to_string(getpid()) + ")"));
  }
  EXPECT_NO_THROW(RunDirectory(folder / "run", RunMode::fresh));
}

// What cannot be listed is not taken for empty, and the advice is not to remove it.
TEST(RunDirectory, CheckpointsThatCannotBeListedAreNotTakenForNone) {
  TemporaryFolder folder;
  begin_run(folder / "run");
  folder.write("run/metrics.jsonl", "");
  std::filesystem::permissions(folder / "run/checkpoints", std::filesystem::perms::owner_write);
  const auto complains = [&] {
    const std::string error = error_of([&] { checkpoint_steps(folder / "run/checkpoints"); });
    return error.find("could not be listed: Permission denied") != std::string::npos;
  };
  if (geteuid() != 0) {
    EXPECT_TRUE(complains());
  } else {
    std::filesystem::permissions(folder / ".", std::filesystem::perms::all);
    const pid_t child = fork();  // to whom permissions count
    if (child == 0) _exit(seteuid(65534) == 0 && complains() ? 0 : 1);
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(WEXITSTATUS(status), 0);
  }
  std::filesystem::permissions(folder / "run/checkpoints", std::filesystem::perms::owner_all);
}

TEST(RunDirectory, AKilledProcessLeavesNoLock) {
  TemporaryFolder folder;
  const pid_t child = fork();
  if (child == 0) {
    const RunDirectory run(folder / "run", RunMode::fresh);
    std::filesystem::create_directories(run.checkpoints());
    run.write_recipe("a = 1\n");
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_TRUE(RunDirectory(folder / "run", RunMode::resume).resumes());
}

TEST(RunDirectory, AFileInItsPlace) {
  TemporaryFolder folder;
  folder.write("run", "");
  EXPECT_THAT(error_of([&] { RunDirectory(folder / "run", RunMode::fresh); }),
              HasSubstr("could not create the directory"));
}

}  // namespace
}  // namespace comera
