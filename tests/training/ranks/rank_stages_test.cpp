// What phases do to ranks, apart from a run.
#include "training/ranks/rank_stages.h"

#include <nlohmann/json.hpp>

#include <gmock/gmock.h>

#include "kernels/reference/reference_backend.h"
#include "model/model.h"
#include "tests/model/configs.h"
#include "tests/support/temporary_folder.h"
#include "training/resume/same_run.h"

namespace comera::test {
namespace {

using testing::HasSubstr;

class RankStagesTest : public testing::Test {
 protected:
  RankStagesTest() : config_(small_config(true)) {
    recipe_.tensorized.enabled = true;
    recipe_.phases.resize(3);
    recipe_.phases[0].name = "first";
    recipe_.phases[1].name = "early";
    recipe_.phases[1].objective = PhaseObjective::regularize;
    recipe_.phases[2].name = "late";
    recipe_.phases[2].objective = PhaseObjective::compress;
    recipe_.phases[2].learning_rate.gates = 0.03;
    recipe_.phases[2].adaptation = AdaptationSection{};
    recipe_.phases[2].adaptation->target_ratio = 0.5;
  }

  EncoderForm& form() { return form_.emplace(config_, config_.vocabulary); }
  StepEngine& make_engine() {
    engine_.reset();
    model_ = std::make_unique<Model>(config_, host_allocator(), true);
    engine_ = std::make_unique<StepEngine>(*model_, OptimizerOptions(),
                                           Processor{reference_backend(), host_allocator()});
    model_->parameters().initialize(1);
    return *engine_;
  }
  bool open(RankStages& stages, StepEngine& engine, std::int64_t phase, std::int64_t phase_step = 0) {
    RunState state;
    state.phase = phase, state.phase_step = phase_step;
    return stages.open(engine, state, 100, {.kind = ScheduleKind::constant, .steps = 100},
                       [this](const std::string& line) { said_.push_back(line); });
  }

  Recipe recipe_;
  EncoderConfig config_;
  std::optional<EncoderForm> form_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<StepEngine> engine_;
  std::vector<std::string> said_;
};

TEST_F(RankStagesTest, APhaseThatAdaptsNothingDoesNothing) {
  recipe_.phases.resize(1);
  RankStages stages(recipe_, form());
  StepEngine& engine = make_engine();
  EXPECT_FALSE(stages.begin(engine.model(), {}));
  EXPECT_FALSE(open(stages, engine, 0));
  EXPECT_FALSE(stages.adapting());
  EXPECT_EQ(engine.ranks(), nullptr);
  EXPECT_FALSE(stages.end_step(engine));
  Json metrics = Json::object();
  stages.add_metrics(metrics);
  EXPECT_TRUE(metrics.empty());
}

TEST_F(RankStagesTest, ADenseBaselineHasNoStages) {
  recipe_.tensorized.enabled = false;
  config_ = config_.dense_baseline();
  RankStages stages(recipe_, form());
  StepEngine& engine = make_engine();
  EXPECT_FALSE(stages.begin(engine.model(), {}));
  EXPECT_FALSE(open(stages, engine, 2));
  EXPECT_FALSE(stages.adapting());
}

// From the size of its beginning to its target, by the cube of what is left of its shrinking share.
TEST_F(RankStagesTest, TheSizeThatIsDueFallsFromStepToStep) {
  recipe_.phases[2].adaptation->shrink_share = 0.5;
  RankStages stages(recipe_, form());
  StepEngine& engine = make_engine();
  ASSERT_TRUE(stages.begin(engine.model(), {}));
  EXPECT_FALSE(open(stages, engine, 1));
  EXPECT_EQ(stages.begin_step(7, 100).target, 0) << "an early stage has none";
  EXPECT_TRUE(open(stages, engine, 2)) << "a late one begins";
  EXPECT_FALSE(stages.target_reached());
  EXPECT_DOUBLE_EQ(stages.begin_step(0, 100).target, 1);
  EXPECT_DOUBLE_EQ(stages.begin_step(25, 100).target, 0.5 + 0.5 / 8);
  EXPECT_DOUBLE_EQ(stages.begin_step(50, 100).target, 0.5);
  EXPECT_DOUBLE_EQ(stages.begin_step(99, 100).target, 0.5);
  EXPECT_FALSE(open(stages, engine, 2, 40)) << "it continues";
}

// Ranks are whole numbers: half a percent above the target is no miss.
TEST_F(RankStagesTest, ATargetIsReachedWithinHalfAPercent) {
  RankStages stages(recipe_, form());
  StepEngine& engine = make_engine();
  ASSERT_TRUE(stages.begin(engine.model(), {}));
  ASSERT_TRUE(open(stages, engine, 2));
  RunState state;
  state.phase = 2;
  for (const auto& [left, reached] : {std::pair{0.5004, true}, {0.5024, true}, {0.503, false}}) {
    RankState ranks = engine.ranks()->state();
    ranks.size_left = left;
    engine.ranks()->set_state(ranks);
    stages.end_step(engine);
    EXPECT_EQ(stages.target_reached(), reached) << left;
    said_.clear();
    stages.close(state, [this](const std::string& line) { said_.push_back(line); });
    ASSERT_EQ(said_.size(), 1U);
    EXPECT_THAT(said_[0], HasSubstr(reached ? "; its target was 0.5000" : "above its target 0.5000"));
  }
}

TEST_F(RankStagesTest, ATargetOutOfReachIsRefusedBeforeAnythingIsTrained) {
  recipe_.phases[2].adaptation->target_ratio = 1e-6;
  StepEngine& engine = make_engine();
  EXPECT_THAT([&] { RankStages(recipe_, form()).begin(engine.model(), {}); },
              testing::ThrowsMessage<UsageError>(HasSubstr("phase.2.adaptation.target_ratio = 1e-06 needs")));
  recipe_.phases[2].adaptation->target_ratio = 1;
  recipe_.phases[2].adaptation->target_of = TargetBase::initial;
  EXPECT_THAT([&] { RankStages(recipe_, form()).begin(engine.model(), {}); },
              testing::ThrowsMessage<UsageError>(HasSubstr("is not smaller than the model")));
  // A phase that has begun has its target already.
  RunState state;
  state.phase = 2, state.phase_step = 3;
  EXPECT_TRUE(RankStages(recipe_, form()).begin(engine.model(), state));
}

TEST_F(RankStagesTest, GatesThatCannotGoTheirWayAreWarnedOf) {
  StepEngine& engine = make_engine();
  RankStages stages(recipe_, form());
  stages.begin(engine.model(), {});
  recipe_.phases[2].learning_rate.gates = 1e-4;  // 100 steps: 0.01
  open(stages, engine, 2);
  EXPECT_THAT(said_, testing::Contains(HasSubstr("can fall by 0.01 in all")));
  said_.clear();
  recipe_.phases[2].learning_rate.gates = 0.5;
  open(stages, engine, 2);
  EXPECT_THAT(said_, testing::Contains(HasSubstr("more than a third of the pruning threshold")));
}

TEST_F(RankStagesTest, ComeBackFromACheckpoint) {
  const TemporaryFolder folder;
  StepEngine& engine = make_engine();
  RankStages stages(recipe_, form());
  stages.begin(engine.model(), {});
  open(stages, engine, 2);
  {
    CheckpointWriter writer(folder / "ranks.h5");
    stages.save(writer);
    writer.commit();
  }
  const CheckpointReader reader(folder / "ranks.h5");
  RankStages again(recipe_, form());
  again.load(reader);
  RunState state;
  state.phase = 2, state.phase_step = 20;
  again.begin(engine.model(), state);
  open(again, engine, 2, 20);
  EXPECT_EQ(again.begin_step(20, 100).target, stages.begin_step(20, 100).target);
  // The same encoder with other ranks is measured by the sizes that it began with; another encoder is not.
  CheckpointWriter writer(folder / "again.h5");
  again.save(writer);
  writer.commit();
  EXPECT_EQ(CheckpointReader(folder / "again.h5").attributes("/ranks"), reader.attributes("/ranks"));
}

// A target that is not finite would make every later metric null.
TEST_F(RankStagesTest, NumbersThatAreNotFiniteAreRefused) {
  const TemporaryFolder folder;
  StepEngine& engine = make_engine();
  RankStages stages(recipe_, form());
  stages.begin(engine.model(), {});
  open(stages, engine, 2);
  for (const char* name :
       {"initial_norm", "size_target", "size_start", "loss_average", "loss_weight", "size_left"}) {
    {
      CheckpointWriter writer(folder / "ranks.h5");
      stages.save(writer);
      writer.attribute("/ranks", name, std::numeric_limits<double>::infinity());
      writer.commit();
    }
    const CheckpointReader reader(folder / "ranks.h5");
    EXPECT_THAT([&] { RankStages(recipe_, form()).load(reader); },
                testing::ThrowsMessage<Error>(
                    HasSubstr(fmt::format("ranks.h5: {} of /ranks is inf, which is not finite", name))));
    std::filesystem::remove(folder / "ranks.h5");
  }
}

TEST(RankStagesOfARun, APhaseThatHasBegunKeepsItsObjectiveAndItsTarget) {
  PhaseSection begun;
  begun.objective = PhaseObjective::compress;
  begun.adaptation = AdaptationSection{};
  begun.adaptation->target_ratio = 0.5;
  PhaseSection now = begun;
  require_same_stage(begun, now, 2, "step-1.h5");
  now.adaptation->compact_interval = 7;
  require_same_stage(begun, now, 2, "step-1.h5");
  now.adaptation->target_ratio = 0.25;
  const auto refused = [&](const char* what) {
    return testing::ThrowsMessage<UsageError>(
        HasSubstr(std::string("step-1.h5 is within phase 2, which was started with another ") + what));
  };
  EXPECT_THAT([&] { require_same_stage(begun, now, 2, "step-1.h5"); }, refused("target size"));
  now = begun;
  now.objective = PhaseObjective::regularize;
  EXPECT_THAT([&] { require_same_stage(begun, now, 2, "step-1.h5"); }, refused("objective"));
}

}  // namespace
}  // namespace comera::test
