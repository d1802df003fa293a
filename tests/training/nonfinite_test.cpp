#include <gmock/gmock.h>

#include <cmath>

#include "tests/training/training_fixture.h"

namespace comera::test {
namespace {

class Nonfinite : public TrainingFixture {};

TEST_F(Nonfinite, StopsWithTheModelOfTheStepBeforeSaved) {
  const Recipe bad = recipe("run");
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
    if (tensor.path == "/model/encoder.1.norm1.weight") continue;
    for (float value : reader.read_values<float>(tensor.path))
      ASSERT_TRUE(std::isfinite(value)) << tensor.path;
  }
}

TEST_F(Nonfinite, ALearningRateBeyondReasonNamesTheStep) {
  std::FILE* null = std::fopen("/dev/null", "w");
  TrainingRun run(
      recipe("run", {"phase.0.learning_rate=1e30", "optim.clip_norm=0.0", "phase.0.warmup_steps=0"}),
      {.output = null});
  EXPECT_THAT([&] { run.run(); }, testing::ThrowsMessage<Error>(testing::HasSubstr("was not finite")));
  std::fclose(null);
}

}  // namespace
}  // namespace comera::test
