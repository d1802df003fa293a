#include "training/run_state.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "tests/support/temporary_folder.h"

namespace comera::test {
namespace {

RunState some_state() {
  return {.step = 12,
          .phase = 1,
          .phase_step = 5,
          .units = 1234,
          .window_loss = 0.1 + 0.2,
          .window_targets = 17,
          .best_score = -3.25,
          .best_step = 8,
          .evaluated_step = 10,
          .logged = {.step = 11, .lines = 2},
          .skipped = 3,
          .skipped_in_a_row = 2,
          .first_nonfinite = "encoder.0.norm1.weight's gradient"};
}

std::filesystem::path written(const TemporaryFolder& folder, const Attributes& attributes) {
  CheckpointWriter writer(folder / "state.h5");
  writer.attributes("/trainer", attributes);
  writer.commit();
  return folder / "state.h5";
}

TEST(RunState, ComesBackToTheBit) {
  const TemporaryFolder folder;
  const RunState saved = some_state();
  const RunState loaded = RunState::load(CheckpointReader(written(folder, saved.attributes())));
  EXPECT_EQ(loaded.attributes(), saved.attributes());
  EXPECT_NE(loaded.attributes(), RunState().attributes());
}

// Values that earlier versions did not save get the values that they had there.
TEST(RunState, OfOlderVersionsIsRead) {
  const TemporaryFolder folder;
  Attributes old = some_state().attributes();
  for (const char* name : {"best_score", "best_step", "evaluated_step", "logged_step", "logged_lines",
                           "skipped_steps", "skipped_in_a_row", "first_nonfinite"})
    old.erase(name);
  const RunState state = RunState::load(CheckpointReader(written(folder, old)));
  EXPECT_EQ(state.step, 12);
  EXPECT_EQ(state.evaluated_step, 12) << "what was due had been done";
  EXPECT_EQ(state.best_step, 0);
  EXPECT_EQ(state.skipped, 0);
  EXPECT_EQ(state.logged.step, -1);
}

TEST(RunState, LossesThatCannotBeAreRefused) {
  const TemporaryFolder folder;
  for (const auto& [name, value] : {std::pair("window_loss", std::nan("")),
                                    {"window_loss", std::numeric_limits<double>::infinity()},
                                    {"window_targets", std::nan("")},
                                    {"window_targets", -1.0}}) {
    Attributes saved = some_state().attributes();
    saved[name] = value;
    EXPECT_THAT(error_of([&] { RunState::load(CheckpointReader(written(folder, saved))); }),
                testing::HasSubstr("state.h5: a loss of"))
        << name;
  }
}

TEST(RunState, AFiniteStepEndsARow) {
  RunState state = some_state();
  state.add_loss(2.5, 3);
  EXPECT_EQ(state.window_targets, 20);
  EXPECT_EQ(state.skipped_in_a_row, 0);
  EXPECT_EQ(state.first_nonfinite, "");
  EXPECT_EQ(state.skipped, 3);
}

}  // namespace
}  // namespace comera::test
