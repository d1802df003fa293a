// Runs with the adapters of [lte]: when they are merged, and what they begin with.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>

#include "tests/training/adapters.h"
#include "tests/training/training_fixture.h"
#include "training/inference/trained_model.h"

namespace comera::test {
namespace {

namespace fs = std::filesystem;

class Adapters : public TrainingFixture {
 protected:
  TrainingOutcome train(const std::string& run, TrainingOptions options,
                        const std::vector<std::string>& overrides) const {
    static std::FILE* const silent = std::fopen("/dev/null", "w");
    options.output = silent;
    return TrainingRun(recipe(run, overrides), options).run();
  }
};

std::vector<float> numbers(const fs::path& checkpoint, const std::string& parameter) {
  return CheckpointReader(checkpoint).read_values<float>("/model/encoder.0.ffn.up." + parameter);
}

// Weights change in merges only, biases never; a dense model begins with what has been merged.
TEST_F(Adapters, AreMergedWhenTheRecipeSays) {
  train("run", {}, with_adapters());
  const auto at = [&](int step) {
    return folder() / "run" / "checkpoints" / fmt::format("step-{:08}.h5", step);
  };
  for (int step = 2; step <= 12; ++step) {
    const bool merged = step % 3 == 0 || step == 7;
    EXPECT_EQ(numbers(at(step), "weight") != numbers(at(step - 1), "weight"), merged) << step;
    EXPECT_EQ(numbers(at(step), "merged_a") == numbers(at(step), "lora_a"), merged) << step;
    EXPECT_EQ(numbers(at(step), "merged_b") == numbers(at(step), "lora_b"), merged) << step;
    EXPECT_NE(numbers(at(step), "lora_b"), numbers(at(step - 1), "lora_b")) << step;
    EXPECT_EQ(numbers(at(step), "bias"), numbers(at(1), "bias")) << step;
  }
  const CheckpointReader reader(at(12));
  EXPECT_FALSE(reader.has_tensor("/optimizer/encoder.0.ffn.up.weight/m"));
  EXPECT_FALSE(reader.has_tensor("/optimizer/encoder.0.ffn.up.merged_a/m"));
  EXPECT_TRUE(reader.has_tensor("/optimizer/encoder.0.ffn.up.lora_a/m"));
  const ProgramResult inspected = run_program({"inspect", at(12).string()});
  EXPECT_EQ(inspected.code, 0) << inspected.output;
  for (const char* part :
       {"dense 24 x 48 frozen, 4 adapters of rank 3", "frozen weights, merges", "of these not trained"})
    EXPECT_NE(inspected.output.find(part), std::string::npos) << part << " in\n" << inspected.output;

  // What predicts has no adapters to train, nor parts to divide tokens into.
  const ProgramResult filled = run_program({"fill-mask", (folder() / "run").string(), "return [MASK]"});
  EXPECT_EQ(filled.code, 0) << filled.output;

  const std::vector<std::string> dense = {
      "tensorized.enabled=false", fmt::format("run.initial_checkpoint=\"{}\"", at(12).string()),
      "phase.0.learning_rate=0", "phase.1.learning_rate=0", "optim.weight_decay=0"};
  train("dense", {.stop_after = 1}, dense);
  const fs::path begun = folder() / "dense" / "checkpoints" / "step-00000001.h5";
  EXPECT_EQ(numbers(begun, "weight"), numbers(at(12), "weight"));
  // Who evaluates a model from between two merges gets all of it.
  const LoadedModel loaded(at(11), {}, {}, "cpu");
  const auto number_in = [&](const std::string& parameter) {
    const ParameterStore& store = loaded.model.parameters();
    return read_tensor(store.value(*store.find("encoder.0.ffn.up." + parameter)));
  };
  EXPECT_EQ(number_in("merged_b"), number_in("lora_b"));
  const std::vector<float> unmerged = numbers(at(11), "weight");
  EXPECT_NE(number_in("weight"), std::vector<double>(unmerged.begin(), unmerged.end()));
  const std::vector<float> adapters = numbers(at(11), "lora_b");
  EXPECT_EQ(number_in("lora_b"), std::vector<double>(adapters.begin(), adapters.end()));
  std::vector<std::string> between = dense;
  between[1] = fmt::format("run.initial_checkpoint=\"{}\"", at(11).string());
  EXPECT_THAT([&] { train("between", {.stop_after = 1}, between); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("was saved between two merges of [lte]")));
  EXPECT_FALSE(CheckpointReader(begun).has_tensor("/model/encoder.0.ffn.up.lora_a"));
}

// Dense weights become the frozen ones, and adapters that begin change nothing of what the model says.
TEST_F(Adapters, BeginWithADenseModelAndWithOthers) {
  const auto begun_with = [&](const fs::path& checkpoint, const char* lte) {
    return with_adapters({fmt::format("run.initial_checkpoint=\"{}\"", checkpoint.string()), lte,
                          "phase.0.learning_rate=0", "optim.weight_decay=0"});
  };
  const auto loss_of = [](const fs::path& checkpoint) {
    const ProgramResult result = run_program({"eval", checkpoint.string(), "--json"});
    EXPECT_EQ(result.code, 0) << result.output;
    const std::string key = "\"validation_loss\":";
    const std::size_t at = result.output.find(key);
    return at == std::string::npos ? NAN : std::stod(result.output.substr(at + key.size()));
  };
  const fs::path dense = train("dense", {}, {"tensorized.enabled=false"}).checkpoint;
  const char* narrow = "lte={lora_r=3, lora_alpha=12, num_heads=4, merge_steps=3}";
  const fs::path begun = train("begun", {.stop_after = 1}, begun_with(dense, narrow)).checkpoint;
  for (const char* frozen : {"weight", "bias"}) EXPECT_EQ(numbers(begun, frozen), numbers(dense, frozen));
  EXPECT_THAT(numbers(begun, "lora_b"), testing::Each(0.0f));
  EXPECT_EQ(loss_of(begun), loss_of(dense));

  // Of another size: what has been merged is all that they begin with.
  train("learnt", {}, with_adapters());
  const fs::path runs = folder() / "learnt" / "checkpoints";
  const fs::path merged = runs / "step-00000012.h5", between = runs / "step-00000011.h5";
  const char* wide = "lte={lora_r=5, lora_alpha=12, num_heads=4, merge_steps=3}";
  const fs::path wider = train("wider", {.stop_after = 1}, begun_with(merged, wide)).checkpoint;
  EXPECT_EQ(numbers(wider, "weight"), numbers(merged, "weight"));
  // Who evaluates the one that was merged adds what its adapters have learnt since, which is 0 to rounding.
  EXPECT_NEAR(loss_of(wider), loss_of(merged), 1e-6);
  EXPECT_THAT([&] { train("refused", {.stop_after = 1}, begun_with(between, wide)); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("was saved between two merges of [lte]")));

  // Of the same size, but multiplied by something else: only what has been merged does not depend on it.
  const char* louder = "lte={lora_r=4, lora_alpha=24, num_heads=4, merge_steps=3}";
  EXPECT_NEAR(loss_of(train("louder", {.stop_after = 1}, begun_with(merged, louder)).checkpoint),
              loss_of(merged), 1e-6);
  EXPECT_THAT([&] { train("scaled", {.stop_after = 1}, begun_with(between, louder)); },
              testing::ThrowsMessage<Error>(testing::HasSubstr(
                  "so another lte.lora_alpha would rescale what its adapters have learned since; use")));
}

}  // namespace
}  // namespace comera::test
