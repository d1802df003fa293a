#include <gmock/gmock.h>

#include <cmath>

#include "kernels/reference/reference_backend.h"
#include "optim/adamw.h"
#include "tests/support/harness.h"
#include "tests/training/nonfinite_run.h"

namespace comera::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class Nonfinite : public NonfiniteRun {};

TEST_F(Nonfinite, ASkippedStepChangesNothingAndIsCounted) { expect_a_skipped_step_to_change_nothing(); }

TEST_F(Nonfinite, ASkippedStepOfMuonChangesNothing) {
  expect_a_skipped_step_to_change_nothing(
      {"optim.name=muon", "optim.momentum=0.0",
       "phase.0.learning_rate={cores=5e-3, embedding=2e-3, gates=1e-3, other=1e-3}",
       "phase.1.learning_rate={cores=5e-3, embedding=2e-3, gates=0.1, other=1e-3}"});
}

TEST_F(Nonfinite, ASkippedStepOfLambChangesNothing) {
  expect_a_skipped_step_to_change_nothing({"optim.name=lamb"});
}

// With one subspace for the whole run: a step that is undone by hand counts as an update, a skipped one does
// not, and subspaces follow the count.
TEST_F(Nonfinite, ASkippedStepOfGaloreChangesNothing) {
  expect_a_skipped_step_to_change_nothing(
      {"optim.name=galore", "optim.galore={rank=5, update_proj_gap=100}"});
}

// Subspaces are found anew before every update: a skipped one must not have found any.
TEST_F(Nonfinite, ASkippedStepLeavesGaloresSubspaces) {
  expect_a_skipped_step_to_change_nothing({"optim.name=galore", "optim.galore={rank=5, update_proj_gap=1}"});
}

// With a decay so small that the average is the last weights: an undone step counts as an update, a skipped
// one does not, and the average's weights follow the count.
TEST_F(Nonfinite, ASkippedStepLeavesTheAverage) {
  expect_a_skipped_step_to_change_nothing({"optim.average_decay=1e-12"});
}

TEST_F(Nonfinite, AFullRowStopsWithACheckpointToGoOnFrom) { expect_a_full_row_to_stop_and_to_go_on(); }

TEST_F(Nonfinite, InterruptedRowsGoOnToTheBit) { expect_rows_to_be_resumed(); }

// The first update moves each number by its learning rate, whether a skipped step was before it or not.
TEST_F(Nonfinite, SkippedStepsAreNoUpdatesOfTheMoments) {
  std::vector<double> before;
  const auto weights = [](StepEngine& engine) {
    const ParameterStore& store = engine.model().parameters();
    return read_tensor(store.value(*store.find("encoder.0.norm1.weight")));
  };
  std::FILE* null = std::fopen("/dev/null", "w");
  TrainingRun* current = nullptr;
  const auto scale = [&](float factor) {
    ParameterStore& store = current->engine().model().parameters();
    store.value(*store.find("encoder.1.norm1.weight")).data<float>()[3] *= factor;
  };
  double moved = 0;
  TrainingOptions options{.after_step =
                              [&](std::int64_t step) {
                                const std::vector<double> now = weights(current->engine());
                                if (step == 1) {
                                  EXPECT_EQ(now, before);
                                  scale(0x1p-127F);
                                }
                                if (step == 2) moved = std::abs(now[0] - before[0]);
                              },
                          .output = null};
  options.stop_after = 2;
  TrainingRun run(recipe("run", {"phase.0.warmup_steps=0", "phase.0.schedule=constant", "optim.eps=1e-20"}),
                  options);
  current = &run;
  before = weights(run.engine());
  scale(0x1p127F);
  EXPECT_EQ(run.run().skipped, 1);
  std::fclose(null);
  EXPECT_NEAR(moved, 2e-3, 2e-6);
}

// A backward pass comes from the end of the model.
TEST(NonfiniteGradients, AreNamedInTheOrderOfABackwardPass) {
  ParameterStore store;
  for (const char* name : {"first", "second", "third"})
    store.add({.name = name, .role = ParameterRole::dense, .shape = {4}, .initializer = {}});
  store.allocate(host_allocator(), DType::float32, true);
  const AdamWOptimizer optimizer(store, {}, host_allocator());
  Harness harness(reference_backend());
  const auto named = [&](const std::vector<double>& first, const std::vector<double>& second) {
    write_tensor(store.gradient(0), first);
    write_tensor(store.gradient(1), second);
    optimizer.apply(harness.context(), harness.step_inputs(), harness.step_results());
    EXPECT_EQ(harness.results().nonfinite, 1);
    return optimizer.first_nonfinite(harness.results());
  };
  EXPECT_EQ(named({1, 1, NAN, 1}, {1, HUGE_VAL, 1, 1}), "second");
  EXPECT_EQ(named({1, 1, NAN, 1}, {1, 1, 1, 1}), "first");
  // Squares that a moment could not hold.
  EXPECT_EQ(named({1, 1, 1e25, 1}, {1, 1, 1, 1e18}), "first");
}

// A gradient that overflows alone: the rest of the train makes up for a core that is nearly 0.
TEST_F(Nonfinite, AGradientBeyondItsSquareIsNamed) {
  std::FILE* null = std::fopen("/dev/null", "w");
  TrainingRun run(recipe("run", {"optim.clip_norm=0.0", "optim.max_consecutive_skips=1"}), {.output = null});
  const ParameterStore& store = run.engine().model().parameters();
  for (const auto& [core, factor] : {std::pair{"core.0", 1e-30F}, std::pair{"core.1", 1e30F}}) {
    const Tensor values = store.value(*store.find(std::string("encoder.1.ffn.up.") + core));
    for (std::int64_t i = 0; i < values.elements(); ++i) values.data<float>()[i] *= factor;
  }
  EXPECT_THAT([&] { run.run(); },
              testing::ThrowsMessage<Error>(
                  HasSubstr("step 1 was not finite, first in encoder.1.ffn.up.core.0's gradient;")));
  std::fclose(null);
}

TEST_F(Nonfinite, StopsAtTheFirstWhereNoneMayBeSkipped) {
  const Recipe bad = recipe("run", {"optim.max_consecutive_skips=1"});
  std::FILE* null = std::fopen("/dev/null", "w");
  TrainingRun* current = nullptr;
  TrainingOptions options{.after_step =
                              [&](std::int64_t step) {
                                if (step != 4) return;
                                ParameterStore& store = current->engine().model().parameters();
                                store.value(*store.find("encoder.1.norm1.weight")).data<float>()[3] = 3e38F;
                              },
                          .output = null};
  TrainingRun run(bad, options);
  current = &run;
  try {
    run.run();
    FAIL() << "NaN went unnoticed";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("step 5 was not finite, first in"));
    EXPECT_THAT(error.what(), testing::HasSubstr("step-00000004.h5"));
  }
  std::fclose(null);
  // What is saved is the state before the step: only what the test itself broke is not finite.
  const CheckpointReader reader(folder() / "run" / "checkpoints" / "step-00000004.h5");
  reader.verify();
  std::FILE* quiet = std::fopen("/dev/null", "w");
  const TrainingOutcome before = TrainingRun(recipe("before"), {.stop_after = 4, .output = quiet}).run();
  std::fclose(quiet);
  const CheckpointReader expected(before.checkpoint);
  EXPECT_EQ(reader.attributes("/trainer"), expected.attributes("/trainer"));
  EXPECT_EQ(reader.attributes("/data"), expected.attributes("/data"));
  for (const CheckpointTensor& tensor : reader.tensors()) {
    if (tensor.dtype != DType::float32) continue;  // the tokenizer
    if (tensor.path == "/model/encoder.1.norm1.weight") continue;
    for (float value : reader.read_values<float>(tensor.path))
      ASSERT_TRUE(std::isfinite(value)) << tensor.path;
  }
}

TEST_F(Nonfinite, ALearningRateBeyondReasonNamesTheSteps) {
  const ProgramResult result =
      run_program({"pretrain", write_recipe().string(), "--set", "phase.0.learning_rate=1e30", "--set",
                   "optim.clip_norm=0.0", "--set", "phase.0.warmup_steps=0"});
  EXPECT_EQ(result.code, 1) << result.output;
  EXPECT_THAT(result.output, AllOf(HasSubstr("warning: step 2 was not finite, first in the loss"),
                                   HasSubstr("steps 2 to 11 were not finite, first in the loss"),
                                   HasSubstr("step-00000010.h5")));
}

TEST_F(Nonfinite, ASummaryCountsThem) {
  const ProgramResult result = run_program(
      {"pretrain", write_recipe().string(), "--set", "phase.0.learning_rate=1e30", "--set",
       "optim.clip_norm=0.0", "--set", "phase.0.warmup_steps=0", "--set", "optim.max_consecutive_skips=100"});
  EXPECT_EQ(result.code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("11 of 12 steps as not finite"));
}

}  // namespace
}  // namespace comera::test
