#include "recipes/run/run_directory.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "kernels/core/check.h"
#include "tests/data/temporary_folder.h"

namespace comera {
namespace {

using data::error_of;
using data::read_text;
using data::TemporaryFolder;
using testing::HasSubstr;

TEST(RunDirectory, IsMadeAndHoldsTheRecipe) {
  TemporaryFolder folder;
  {
    const RunDirectory run(folder / "deep/run", RunMode::fresh);
    EXPECT_FALSE(run.resumes());
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
  RunDirectory(folder / "run", RunMode::fresh).write_recipe("a = 1\n");
  EXPECT_THROW(RunDirectory(folder / "run", RunMode::fresh), UsageError);
  EXPECT_THAT(error_of([&] { RunDirectory(folder / "run", RunMode::fresh); }),
              HasSubstr("holds another run"));
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

TEST(RunDirectory, AKilledProcessLeavesNoLock) {
  TemporaryFolder folder;
  const pid_t child = fork();
  if (child == 0) {
    const RunDirectory run(folder / "run", RunMode::fresh);
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
