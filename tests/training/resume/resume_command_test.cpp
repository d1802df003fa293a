// `comera resume`: a run goes on with nothing but its folder.
#include <gmock/gmock.h>

#include <fstream>

#include "checkpoints/checkpoint_file.h"
#include "kernels/core/version.h"
#include "tests/support/temporary_folder.h"
#include "tests/training/finetune_fixture.h"

namespace comera::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;

class ResumeCommand : public Finetune {
 protected:
  fs::path stopped(const std::string& name, std::int64_t step,
                   const std::vector<std::string>& overrides = {}) const {
    TrainingRun run(recipe(name, overrides), {.stop_after = step, .output = silent()});
    run.run();
    return folder() / name;
  }
  static ProgramResult resume(const fs::path& run, std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"resume", run.string()});
    return run_program(more);
  }
  static fs::path last(const fs::path& run, const char* step) {
    return run / "checkpoints" / fmt::format("step-{:0>8}.h5", step);
  }
};

TEST_F(ResumeCommand, GoesOnToTheSameEnd) {
  const fs::path whole = stopped("whole", 0), run = stopped("run", 4);
  const ProgramResult resumed = resume(run);
  EXPECT_EQ(resumed.code, 0) << resumed.output;
  EXPECT_THAT(
      resumed.output,
      AllOf(HasSubstr("step 4 of 12"),
            ContainsRegex("in phase 'short'; at the current speed the run takes another .* s, until "),
            HasSubstr("held-out loss")));
  expect_equal_checkpoints(last(whole, "12"), last(run, "12"));
  EXPECT_THAT(resume(run).output, HasSubstr("this run is already finished"));
}

TEST_F(ResumeCommand, CheckpointsNameTheVersionThatWroteThem) {
  const fs::path checkpoint = last(stopped("run", 4), "4");
  EXPECT_EQ(CheckpointReader(checkpoint).text("/environment", "version"), version());
  EXPECT_THAT(run_program({"inspect", checkpoint.string()}).output,
              HasSubstr(fmt::format(", written by comera {}\n", version())));
}

TEST_F(ResumeCommand, TakesAFineTuningForOne) {
  const std::string run = (folder() / "run").string();
  ASSERT_EQ(run_program(arguments("finetune", {"--output", run, "--stop-after", "5"})).code, 0);
  ASSERT_EQ(run_program(arguments("finetune", {"--output", (folder() / "whole").string()})).code, 0);
  const ProgramResult resumed = resume(run);
  EXPECT_EQ(resumed.code, 0) << resumed.output;
  EXPECT_THAT(resumed.output, HasSubstr("best             accuracy"));
  expect_equal_checkpoints(last(folder() / "whole", "12"), last(run, "12"));
}

TEST_F(ResumeCommand, StopsWhenItsHoursAreOver) {
  const fs::path run = stopped("run", 2, {"run.log_interval=1"});
  const ProgramResult resumed = resume(run, {"--hours", "1e-9"});
  EXPECT_EQ(resumed.code, 0) << resumed.output;
  EXPECT_THAT(resumed.output,
              AllOf(HasSubstr("stopped at step 2 of 12"), HasSubstr("; --hours ends it earlier, "),
                    HasSubstr("continue with: comera resume " + run.string())));
}

TEST_F(ResumeCommand, TheFolderMayHaveMoved) {
  const fs::path run = stopped("run", 4), whole = stopped("whole", 0);
  fs::rename(run, folder() / "moved");
  // The files that it was begun with are gone.
  std::string recipe = read_text(folder() / "moved/recipe.toml");
  const std::size_t tokenizer = recipe.find("tokenizer = \""), end = recipe.find('\n', tokenizer);
  recipe.replace(tokenizer, end - tokenizer, "tokenizer = \"/nowhere/tokenizer.model\"");
  std::ofstream(folder() / "moved/recipe.toml") << recipe;
  const ProgramResult resumed = resume(folder() / "moved", {"--set", "run.threads=1"});
  EXPECT_EQ(resumed.code, 0) << resumed.output;
  expect_equal_checkpoints(last(whole, "12"), last(folder() / "moved", "12"));
  EXPECT_FALSE(fs::exists(run));
}

TEST_F(ResumeCommand, TheDataMayHaveMoved) {
  const fs::path shards = folder() / "shards", moved = folder() / "elsewhere" / "shards";
  fs::copy(corpus(), shards, fs::copy_options::recursive);
  const std::string at = fmt::format("\"{}\"", shards.string());
  const fs::path run = stopped("run", 4, {"data.train=" + at, "data.validation=" + at}),
                 whole = stopped("whole", 0);
  fs::create_directory(folder() / "elsewhere");
  fs::rename(shards, moved);
  expect(resume(run), 2,
         {"its data were in " + shards.string(), "comera resume " + run.string() + " --data DIR"});
  expect(resume(run, {"--data", (folder() / "nowhere").string()}), 2, {"nowhere"});
  const ProgramResult resumed = resume(run, {"--data", moved.string()});
  EXPECT_EQ(resumed.code, 0) << resumed.output;
  expect_equal_checkpoints(last(whole, "12"), last(run, "12"));
}

TEST_F(ResumeCommand, ALoneCheckpointIsNoRun) {
  const fs::path run = stopped("run", 4);
  fs::copy_file(last(run, "4"), folder() / "ck.h5");
  expect(resume(folder() / "ck.h5"), 2, {"ck.h5: is a file", "comera pretrain RECIPE --from", "--data DIR"});
}

TEST_F(ResumeCommand, AnOlderCheckpointIfTheRecipeAllowsIt) {
  const auto damaged = [&](const char* name, const std::vector<std::string>& overrides) {
    std::vector<std::string> all = {"run.checkpoint_interval=2"};
    all.insert(all.end(), overrides.begin(), overrides.end());
    fs::path run = stopped(name, 4, all);
    fs::resize_file(last(run, "4"), fs::file_size(last(run, "4")) - 100);
    return run;
  };
  expect(resume(damaged("strict", {})), 1, {"step-00000004.h5", "truncated"});
  const ProgramResult resumed = resume(damaged("lenient", {"run.use_older_checkpoint=true"}));
  EXPECT_EQ(resumed.code, 0) << resumed.output;
  EXPECT_THAT(resumed.output, HasSubstr("continues from step-00000002.h5"));
}

TEST_F(ResumeCommand, WhatIsNoRunIsRefused) {
  expect(resume(folder() / "nothing"), 2, {"nothing: no such run", "--output"});
  fs::create_directory(folder() / "empty");
  expect(resume(folder() / "empty"), 2, {"empty: is not a run of comera"});
  const fs::path run = stopped("run", 2);
  expect(resume(run, {"--set", "run.treads=1"}), 2, {"run.treads"});
  expect(resume(run, {"--set", "model.layers=6"}), 2, {"model.layers is 2 in the checkpoint, 6 here"});
  expect(resume(run, {"--set", "run.output=elsewhere"}), 2,
         {"--set run.output: the run stays in its folder"});
  expect(resume(run, {"--set", "data.tokenizer=/nowhere/tokenizer.model"}), 2, {"/nowhere/tokenizer.model"});
  // A recipe that somebody has changed is not passed over.
  std::ofstream(run / "recipe.toml", std::ios::app) << "[[phase\n";
  expect(resume(run), 2, {"recipe.toml"});
}

}  // namespace
}  // namespace comera::test
