#include <fmt/format.h>
#include <gmock/gmock.h>

#include <fstream>

#include "tests/support/temporary_folder.h"
#include "tests/training/training_fixture.h"

namespace comera::test {
namespace {

using testing::HasSubstr;

class PlanCommand : public TrainingFixture {
 protected:
  std::vector<std::string> plan(const std::vector<std::string>& more) const {
    std::vector<std::string> arguments = {"plan",  write_recipe(),  "--hours", "0.0005",
                                          "--set", "run.threads=1", "--set",   "run.device='cpu'"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  std::string at(const char* name) const { return (folder() / name).string(); }
};

// What is advised can be trained at once. Which width that is depends on how busy the machine is.
TEST_F(PlanCommand, WritesARecipeThatTrains) {
  const ProgramResult planned = run_program(plan({"--output", at("mine.toml")}));
  ASSERT_EQ(planned.code, 0) << planned.output;
  EXPECT_THAT(planned.output, testing::AllOf(HasSubstr("million tokens"), HasSubstr("passes "),
                                             HasSubstr("run.max_hours = 0.0005")));
  const Recipe recipe = load_recipe(at("mine.toml"));
  EXPECT_THAT(planned.output, HasSubstr(fmt::format("recommended: width {}, ranks ", recipe.model.hidden)));
  EXPECT_EQ(recipe.run.max_hours, 0.0005);
  EXPECT_EQ(recipe.data.train, corpus());
  const ProgramResult trained = run_program({"pretrain", at("mine.toml"), "--output", at("run")});
  EXPECT_EQ(trained.code, 0) << trained.output;
  EXPECT_THAT(trained.output, HasSubstr("saved"));
}

TEST_F(PlanCommand, TakesDataOfItsOwn) {
  for (const char* name : {"a", "b"}) {
    std::filesystem::create_directories(folder() / name);
    for (const char* file : {"train-00000.h5", "validation-00000.h5"})
      std::filesystem::copy(corpus() / file, folder() / name / file);
  }
  const std::string tokenizer = corpus() / "tok.model";
  const ProgramResult planned = run_program(
      plan({"--data", at("a"), "--data", at("b"), "--tokenizer", tokenizer, "--output", at("mixed.toml")}));
  ASSERT_EQ(planned.code, 0) << planned.output;
  const Recipe mixed = load_recipe(at("mixed.toml"));
  ASSERT_EQ(mixed.data.sources.size(), 2U);
  EXPECT_EQ(mixed.data.sources[1].folder, at("b"));
  EXPECT_EQ(mixed.data.sources[1].weight, 1.0);
  EXPECT_EQ(mixed.data.train, "");
  EXPECT_EQ(mixed.data.tokenizer, tokenizer);
  // Of a pretraining they are the same.
  const ProgramResult trained = run_program(
      {"pretrain", write_recipe(), "--data", at("a"), at("b"), "--output", at("run"), "--stop-after", "1"});
  ASSERT_EQ(trained.code, 0) << trained.output;
  EXPECT_EQ(load_recipe(at("run/recipe.toml")).data.sources, mixed.data.sources);
}

TEST_F(PlanCommand, RefusesWhatCannotBe) {
  std::ofstream(at("taken.toml")) << "mine";
  expect(run_program(plan({"--output", at("taken.toml")})), 2, {"taken.toml: already exists", "--overwrite"});
  EXPECT_EQ(read_text(at("taken.toml")), "mine");
  expect(run_program(plan({"--set", "data.tokenizer=''"})), 2, {"--tokenizer"});
  expect(run_program(plan({"--data", at("nothing")})), 2, {"nothing"});
  // Said before the measurements, not after them.
  expect(run_program(plan({"--output", "/dev/null/mine.toml"})), 1, {"/dev/null"});
  expect(run_program(plan({"--data", corpus(), "--data", corpus()})), 2, {"both end in", "rename one"});
  expect(run_program(plan({"--set", "tensorized.enabled=false"})), 2, {"tensorized.enabled"});
}

}  // namespace
}  // namespace comera::test
