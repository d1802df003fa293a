// `comera compact --from-dense`, as the program runs it.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include <fstream>

#include "tests/training/ranks/dense_compaction_fixture.h"

namespace comera::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class CompactCommand : public DenseCompactionTest {
 protected:
  ProgramResult compact_with(const std::vector<std::string>& more) const {
    std::vector<std::string> arguments = {"compact"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_program(arguments);
  }
  std::string output() const { return (folder() / "out.h5").string(); }
};

TEST_F(CompactCommand, WritesAnOrdinaryCheckpoint) {
  const std::string dense = trained_dense().string();
  const ProgramResult result = compact_with(
      {"--from-dense", dense, "--output", (folder() / "new" / "folder").string(), "--error", "0.3"});
  ASSERT_EQ(result.code, 0) << result.output;
  for (const char* part : {"embedding.tokens", "encoder.1.ffn.up", "[4,6 | 6,8] ranks ", "allowed", "reached",
                           "the whole model", "optimizer state"})
    EXPECT_THAT(result.output, HasSubstr(part));
  const std::string file = (folder() / "new" / "folder" / trained_dense().filename()).string();
  const ProgramResult inspected = run_program({"inspect", file, "--explain-linears", "64"});
  EXPECT_EQ(inspected.code, 0) << inspected.output;
  EXPECT_THAT(inspected.output, HasSubstr("step 61"));
  const LayerRanks ranks = checkpoint_recipe(CheckpointReader(file)).tensorized.ranks;
  for (const auto& [layer, list] : ranks)  // each with its own
    EXPECT_THAT(inspected.output, testing::ContainsRegex(layer + " +\\[[^]]*\\].* ranks " +
                                                         fmt::format("{}", fmt::join(list, ",")) + " "));
  expect(compact_with({"--from-dense", dense, "--output", file}), 2, {file, "--overwrite"});
  EXPECT_EQ(compact_with({"--from-dense", dense, "--output", file, "--error", "0.5", "--overwrite"}).code, 0);
}

TEST_F(CompactCommand, ARunsFolderStandsForItsNewestCheckpoint) {
  const fs::path run = trained_dense().parent_path().parent_path();
  EXPECT_EQ(compact_with({"--from-dense", run.string(), "--output", output()}).code, 0);
  expect(compact_with({"--from-dense", folder().string(), "--output", output()}), 2,
         {"folder without checkpoints"});
}

TEST_F(CompactCommand, ItCannotBeResumed) {
  const fs::path run = folder() / "run";
  train(recipe("run"), {}, {.stop_after = 2});
  fs::remove_all(run / "checkpoints");
  compact(trained_dense(), folder() / "compacted.h5", {.error = 0.5});
  fs::create_directories(run / "checkpoints");
  fs::copy(folder() / "compacted.h5", run / "checkpoints" / "step-00000003.h5");
  expect(run_program({"pretrain", write_recipe().string(), "--resume", "auto"}), 1,
         {"no optimizer state", "start a new run"});
}

TEST_F(CompactCommand, WrongErrors) {
  const std::string dense = trained_dense().string();
  for (const char* error : {"-0.1", "1", "1.5", "nan", "inf"})
    expect(compact_with({"--from-dense", dense, "--output", output(), fmt::format("--error={}", error)}), 2,
           {"--error", "at least 0 and less than 1"});
  expect(compact_with({"--from-dense", dense, "--output", output(), "--error", "small"}), 2, {"--error"});
  expect(compact_with({"--from-dense", dense, "--output", output(), "--max-rank", "0"}), 2, {"--max-rank"});
  expect(compact_with({"--output", output()}), 2, {"--from-dense"});
  // A built-in recipe is found by its name; its modes are adjusted to the widths.
  const std::string elsewhere = (folder() / "named.h5").string();
  EXPECT_EQ(compact_with({"--from-dense", dense, "--output", elsewhere, "--recipe", "quickstart"}).code, 0);
  expect(compact_with({"--from-dense", dense, "--output", output(), "--recipe", "quikstart"}), 2,
         {"did you mean 'quickstart'"});
  expect(compact_with({"--from-dense", dense}), 2, {"--output"});
  EXPECT_FALSE(fs::exists(output()));
}

TEST_F(CompactCommand, ATensorizedCheckpoint) {
  const fs::path tensorized = train(recipe("run"), {}, {.stop_after = 1});
  expect(compact_with({"--from-dense", tensorized.string(), "--output", output()}), 1,
         {tensorized.string(), "already tensorized", ".core."});
}

TEST_F(CompactCommand, DamagedAndForeignFiles) {
  const fs::path damaged = folder() / "damaged.h5";
  fs::copy(trained_dense(), damaged);
  {
    std::fstream file(damaged, std::ios::in | std::ios::out | std::ios::binary);
    const std::string start(4, '\x7f');
    file.seekp(static_cast<std::streamoff>(fs::file_size(damaged) / 2));
    file.write(start.data(), 4);
  }
  expect(compact_with({"--from-dense", damaged.string(), "--output", output()}), 1,
         {"damaged.h5", "damaged"});
  fs::resize_file(damaged, 5000);
  expect(compact_with({"--from-dense", damaged.string(), "--output", output()}), 1,
         {"damaged.h5", "truncated"});
  expect(compact_with({"--from-dense", (corpus() / "train-00000.h5").string(), "--output", output()}), 1,
         {"not a checkpoint"});
  expect(compact_with({"--from-dense", (folder() / "absent.h5").string(), "--output", output()}), 2,
         {"absent.h5"});
  EXPECT_FALSE(fs::exists(output()));
}

TEST_F(CompactCommand, ModesThatDoNotFit) {
  const std::string dense = trained_dense().string();
  const auto with = [&](const std::string& assignment) {
    return compact_with({"--from-dense", dense, "--output", output(), "--set", assignment});
  };
  expect(with("tensorized.attention.input_modes=[4, 5]"), 2,
         {"tensorized.attention", "multiply to 20", "24"});
  expect(with("tensorized.embedding.row_modes=[4, 4, 4]"), 2, {"multiply to 64", "vocabulary"});
  expect(with("model.layers=3"), 2, {"model.layers", "only keys of [tensorized]"});
  expect(with("tensorized.atention.ranks=[1]"), 2, {"attention"});
}

TEST_F(CompactCommand, ShapesFromAnotherRecipe) {
  const std::string dense = trained_dense().string();
  std::string text = recipe_text();
  const std::size_t at = text.find("[tensorized.attention]"), end = text.find("[data]");
  const fs::path file = folder() / "shapes.toml";
  std::ofstream(file) << text.substr(0, at) + text.substr(end);
  const ProgramResult factors =
      compact_with({"--from-dense", dense, "--output", output(), "--recipe", file.string()});
  ASSERT_EQ(factors.code, 0) << factors.output;
  for (const char* shape :
       {"[400,1] x [1,24] ranks ", "[24 | 24] ranks ", "[24 | 48] ranks ", "[48 | 24] ranks "})
    EXPECT_THAT(factors.output, HasSubstr(shape));
  fs::remove(output());
  std::ofstream(file) << text.substr(0, at) +
                             "[tensorized.attention]\ninput_modes = [2, 12]\noutput_modes = [24]\n"
                             "ranks = [2, 24]\n\n" +
                             text.substr(end);
  const ProgramResult result = compact_with(
      {"--from-dense", dense, "--output", output(), "--recipe", file.string(), "--error", "0.4"});
  ASSERT_EQ(result.code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("[2,12 | 24] ranks "));
  EXPECT_THAT(result.output, testing::Not(HasSubstr("ffn.up")));
}

}  // namespace
}  // namespace comera::test
