// A checkpoint that was copied to a place of its own is enough for every command.
#include <gmock/gmock.h>

#include <fstream>
#include <thread>

#include "tests/recipes/ranked_checkpoint.h"
#include "tests/training/finetune_fixture.h"
#include "training/resume/checkpoint_tokenizer.h"

namespace comera::test {
namespace {

namespace fs = std::filesystem;

class CarriedTokenizer : public Finetune {
 protected:
  // The last checkpoint of a short pretraining, away from its run.
  fs::path alone(const std::vector<std::string>& overrides = {}) const {
    TrainingRun run(recipe("run", overrides), {.output = silent()});
    fs::create_directory(folder() / "elsewhere");
    fs::copy(run.run().checkpoint, folder() / "elsewhere/model.h5");
    return folder() / "elsewhere/model.h5";
  }
  static std::string all_of(const fs::path& file) {
    std::ifstream stream(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
};

TEST_F(CarriedTokenizer, IsTheOneOfTheRun) {
  const data::Tokenizer carried = load_tokenizer(alone());
  EXPECT_EQ(carried.bytes(), all_of(folder() / "run/tokenizer.model"));
  EXPECT_EQ(carried.hash(), data::Tokenizer::load(folder() / "run/tokenizer.model").hash());
}

// A run gives its best model another name, or deletes its oldest checkpoint, while another command reads it.
TEST_F(CarriedTokenizer, CanBeReadAlthoughTheCheckpointHasAnotherNameByNow) {
  const fs::path model = alone();
  const TrainedModel found = find_trained_model(model);
  fs::rename(model, folder() / "elsewhere/renamed.h5");
  EXPECT_EQ(found.tokenizer, model);
  EXPECT_EQ(load_tokenizer_of(*found.reader, found.tokenizer).bytes(),
            all_of(folder() / "run/tokenizer.model"));
  EXPECT_THAT([&] { static_cast<void>(find_trained_model(model)); },
              testing::ThrowsMessage<UsageError>(testing::HasSubstr("no such checkpoint")));
}

// A run renames its best model and deletes old checkpoints between a reader's listing and its opening.
TEST_F(CarriedTokenizer, IsFoundWhileTheRunRenamesAndDeletesCheckpoints) {
  const fs::path model = alone(), run = folder() / "run", best = run / "best.h5";
  if (!fs::exists(best)) fs::copy_file(model, best);
  std::jthread saving([&](const std::stop_token& stop) {
    for (int step = 13; !stop.stop_requested(); ++step) {
      const fs::path newest = run / "checkpoints" / fmt::format("step-{:08}.h5", step);
      fs::create_hard_link(model, newest);
      fs::rename(best, run / "best-phase-0.h5");
      fs::remove(newest);
      fs::rename(run / "best-phase-0.h5", best);
    }
  });
  for (int tries = 0; tries < 60; ++tries) EXPECT_FALSE(find_trained_model(run).recipe.empty());
}

TEST_F(CarriedTokenizer, IsEnoughForEveryCommand) {
  const std::string model = alone().string(), run = (folder() / "run").string();
  const std::string text = (folder() / "text.txt").string(), held_out = corpus().string();
  std::ofstream(text) << "the count of the value\nanother line\n";
  const auto same = [&](std::vector<std::string> words) {
    std::vector<std::string> at_home = words;
    words.insert(words.begin() + 1, model), at_home.insert(at_home.begin() + 1, run);
    const ProgramResult away = run_program(words), home = run_program(at_home);
    EXPECT_EQ(away.code, 0) << away.output;
    EXPECT_EQ(home.code, 0) << home.output;
    return std::pair{away.output, home.output};
  };
  const auto [away, home] = same({"eval", "--data", held_out, "--json"});
  EXPECT_EQ(away.substr(away.find('{')), home.substr(home.find('{')));
  EXPECT_EQ(run_program({"fill-mask", model, "the [MASK] of"}).code, 0);
  const std::string vectors = (folder() / "vectors.h5").string();
  EXPECT_EQ(run_program({"embed", model, "--input", text, "--output", vectors}).code, 0);
}

TEST_F(CarriedTokenizer, MakesTheSameShards) {
  const std::string model = alone().string(), text = (folder() / "more").string();
  fs::create_directory(text);
  for (int i = 0; i < 20; ++i)
    std::ofstream(fs::path(text) / fmt::format("{}.py", i))
        << fmt::format("def f{0}(x):\n    return x + {0}\n", i);
  for (const std::string& tokenizer : {model, (folder() / "run/tokenizer.model").string()}) {
    const ProgramResult made =
        run_program({"data", "--input", text, "--min-bytes", "1", "--tokenizer", tokenizer, "--output",
                     (folder() / fs::path(tokenizer).stem()).string()});
    ASSERT_EQ(made.code, 0) << made.output;
  }
  EXPECT_EQ(all_of(folder() / "model/train-00000.h5"), all_of(folder() / "tokenizer/train-00000.h5"));
}

TEST_F(CarriedTokenizer, IsThatOfAFineTuning) {
  const std::string model = alone().string();
  fs::remove_all(folder() / "run");
  std::vector<std::string> tune =
      arguments("finetune", {"--from", model, "--output", (folder() / "tuned").string(), "--stop-after", "1"},
                {"data.tokenizer=''"});
  const ProgramResult tuned = run_program(tune);
  ASSERT_EQ(tuned.code, 0) << tuned.output;
  EXPECT_EQ(load_tokenizer(folder() / "tuned/checkpoints/step-00000001.h5").hash(),
            load_tokenizer(model).hash());
  tune.insert(tune.end(), {"--resume", "auto"});
  tune[std::ranges::find(tune, "--stop-after") - tune.begin() + 1] = "2";
  const ProgramResult resumed = run_program(tune);
  EXPECT_EQ(resumed.code, 0) << resumed.output;
}

TEST_F(CarriedTokenizer, StaysWhenAModelIsCompacted) {
  const fs::path dense = alone({"tensorized.enabled=false"});
  const std::string trains = (folder() / "trains.h5").string(), small = (folder() / "small.h5").string();
  ASSERT_EQ(run_program({"compact", "--from-dense", dense.string(), "--output", trains}).code, 0);
  ASSERT_EQ(run_program({"compact", trains, "--output", small}).code, 0);
  EXPECT_EQ(load_tokenizer(trains).hash(), load_tokenizer(dense).hash());
  EXPECT_EQ(load_tokenizer(small).hash(), load_tokenizer(dense).hash());
}

TEST_F(CarriedTokenizer, FilesOfEarlierVersionsHaveNone) {
  const std::string old = (folder() / "old.h5").string();
  write_ranked(old, {.overrides = {}});
  expect(run_program({"eval", old}), 2, {"carries no tokenizer", "--tokenizer FILE"});
  expect(run_program({"data", "--input", folder().string(), "--tokenizer", old, "--output", "none"}), 2,
         {"carries no tokenizer (an earlier version", "give the tokenizer's file"});
}

TEST_F(CarriedTokenizer, ADamagedOneIsRefused) {
  const fs::path model = alone();
  std::string bytes = all_of(model);
  const std::size_t place = bytes.find(all_of(folder() / "run/tokenizer.model").substr(0, 64));
  ASSERT_NE(place, std::string::npos);
  bytes[place + 7] ^= 1;
  std::ofstream(model, std::ios::binary) << bytes;
  expect(run_program({"fill-mask", model.string(), "the [MASK]"}), 1,
         {"checksum of '/data/tokenizer' is wrong"});
}

}  // namespace
}  // namespace comera::test
