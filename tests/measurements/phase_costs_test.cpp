#include <gmock/gmock.h>

#include <array>

#include "kernels/backends/processors.h"
#include "measurements/phase_costs.h"
#include "measurements/stepper.h"
#include "recipes/encoder_config.h"
#include "tests/training/training_fixture.h"

namespace comera::test {
namespace {

using testing::HasSubstr;

constexpr std::int64_t vocabulary = 500;

using PhaseCostsTest = TrainingFixture;

double bytes_of(const PhaseCost& phase, MemoryKind kind) {
  return static_cast<double>(phase.bytes[static_cast<int>(kind)]);
}

TEST_F(PhaseCostsTest, MemoryIsThatOfARun) {
  const Recipe recipe = this->recipe("run", {"run.threads=1", "run.device='cpu'"});
  TrainingRun run(recipe, {});
  run.run();
  const PhaseCosts costs =
      measure_phases(recipe, dynamic_cast<const EncoderForm&>(run.form()).config().vocabulary);
  ASSERT_EQ(costs.phases.size(), 2U);
  const Allocator& allocator = run.engine().allocator();
  const PhaseCost& last = costs.phases.back();
  for (const MemoryKind kind : {MemoryKind::parameters, MemoryKind::gradients, MemoryKind::optimizer})
    EXPECT_EQ(bytes_of(last, kind), static_cast<double>(allocator.use(kind).current)) << name_of(kind);
  const auto saved = static_cast<double>(run.engine().arena_plan().saved);
  EXPECT_NEAR(bytes_of(last, MemoryKind::activations), saved, 0.1 * saved);
}

TEST(PhaseCostsText, OneStepIsSaidToBeOneAndABusyMachineBusy) {
  PhaseCosts costs{
      .machine = "here",
      .phases = {{.name = "long", .seconds = 1.7, .least = 1.7, .most = 1.7, .samples = 1, .steps = 10}}};
  EXPECT_THAT(phase_costs_text(costs), testing::AllOf(HasSubstr("(one step)"), HasSubstr("one was measured"),
                                                      testing::Not(HasSubstr("busy"))));
  costs.phases[0].samples = 3;
  costs.phases[0].most = 1.8;
  costs.load = 1000;
  EXPECT_THAT(phase_costs_text(costs),
              testing::AllOf(HasSubstr("(1700.0 to 1800.0)"), testing::Not(HasSubstr("one was measured")),
                             HasSubstr("the machine was busy (load 1000.0 on ")));
}

TEST_F(PhaseCostsTest, StepsAndHoursOfEachPhase) {
  const Recipe recipe = this->recipe("unused", {"run.threads=1"});
  const PhaseCosts costs = measure_phases(recipe, vocabulary);
  for (std::size_t i = 0; i < costs.phases.size(); ++i) {
    const PhaseCost& phase = costs.phases[i];
    const PhaseSection& section = recipe.phases[i];
    EXPECT_EQ(phase.name, section.name);
    EXPECT_EQ(phase.tokens, section.tokens_per_micro_batch * section.micro_batches_per_step);
    EXPECT_GT(phase.least, 0);
    EXPECT_LE(phase.least, phase.seconds);
    EXPECT_LE(phase.seconds, phase.most);
    EXPECT_EQ(phase.steps, static_cast<double>(*section.steps));
    EXPECT_DOUBLE_EQ(*phase.hours(), static_cast<double>(*section.steps) * phase.seconds / 3600);
  }
  const std::string text = phase_costs_text(costs);
  EXPECT_THAT(text,
              testing::AllOf(HasSubstr("on this machine (CPU, 1 thread"), HasSubstr(recipe.phases[1].name),
                             HasSubstr("activations"), HasSubstr("\nall ")));
}

TEST_F(PhaseCostsTest, MicroBatchesHoldWhatTheyHoldInTheMean) {
  const Recipe recipe = this->recipe("unused", {"run.threads=1"});
  const PhaseCosts full = measure_phases(recipe, vocabulary);
  // 2.4 and 1.6 samples of two sequences of 10.3 and 9.6 tokens; nothing is known of the second phase.
  for (const auto& [samples, tokens, expected] : {std::tuple{24, 494.0, 40}, std::tuple{16, 307.0, 40}}) {
    const EpochSize epoch{
        .micro_batches = 10, .sequences = 2.0 * samples, .tokens = tokens, .sequences_per_sample = 2};
    const PhaseCosts held = measure_phases(recipe, vocabulary, 1, nullptr, {epoch});
    EXPECT_EQ(held.phases[0].mean_tokens, expected * recipe.phases[0].micro_batches_per_step);
    EXPECT_EQ(held.phases[0].tokens, full.phases[0].tokens);
    EXPECT_EQ(held.phases[0].bytes, full.phases[0].bytes);  // the room that a run keeps
    EXPECT_EQ(held.phases[1].mean_tokens, held.phases[1].tokens);
    EXPECT_THAT(phase_costs_text(held), HasSubstr(fmt::format(" {} ", held.phases[0].mean_tokens)));
  }
  // Sequences never get longer than there is room for.
  const std::int64_t room = full.phases[0].tokens, sequences = room / recipe.phases[0].length + 5;
  const EpochSize crowded{.micro_batches = 1,
                          .sequences = static_cast<double>(sequences),
                          .tokens = static_cast<double>(10 * room)};
  const std::int64_t crowd = measure_phases(recipe, vocabulary, 1, nullptr, {crowded}).phases[0].mean_tokens;
  EXPECT_LE(crowd, room);
  EXPECT_GE(crowd, sequences);
}

TEST_F(PhaseCostsTest, ARandomBatchHoldsWhatItIsTold) {
  StepBenchmarkOptions options;
  options.config = encoder_config(recipe("unused", {}), vocabulary);
  options.tokens = 64, options.length = 16;
  const auto sizes = [&] {
    const data::Batch batch = random_batch(options, capacity_of(options), 0);
    return std::array{batch.sequences, batch.tokens, batch.examples};
  };
  EXPECT_EQ(sizes(), (std::array{4, 64, 4}));
  options.held_sequences = 6, options.held_length = 7, options.held_examples = 3;
  EXPECT_EQ(sizes(), (std::array{6, 42, 3}));
}

TEST_F(PhaseCostsTest, HoursAreDividedAsARunDividesThem) {
  const Recipe recipe = this->recipe("unused", {"run.threads=1", "run.max_hours=3"});
  const PhaseCosts costs = measure_phases(recipe, vocabulary);
  double hours = 0, asked = 0;
  for (const PhaseSection& phase : recipe.phases)
    asked += static_cast<double>(*phase.steps * phase.tokens_per_micro_batch * phase.micro_batches_per_step);
  for (std::size_t i = 0; i < costs.phases.size(); ++i) {
    hours += *costs.phases[i].hours();
    const PhaseSection& phase = recipe.phases[i];
    const auto tokens =
        static_cast<double>(*phase.steps * phase.tokens_per_micro_batch * phase.micro_batches_per_step);
    EXPECT_NEAR(*costs.phases[i].hours(), 3 * tokens / asked, 1e-9);
  }
  EXPECT_NEAR(hours, 3, 1e-9);
  EXPECT_THAT(phase_costs_text(costs), HasSubstr("run.max_hours = 3"));
}

TEST_F(PhaseCostsTest, HoursWaitForTheStepsOfAllPhases) {
  for (const int in_epochs : {0, 1}) {
    Recipe recipe = this->recipe("unused", {"run.threads=1", "run.max_hours=3"});
    PhaseSection& section = recipe.phases[static_cast<std::size_t>(in_epochs)];
    section.steps.reset();
    section.epochs = 2;
    PhaseCosts costs = measure_phases(recipe, vocabulary);
    EXPECT_FALSE(costs.hours_divided);
    EXPECT_FALSE(costs.phases[static_cast<std::size_t>(in_epochs)].hours());
    EXPECT_THAT(phase_costs_text(costs),
                testing::AllOf(HasSubstr("2 passes"), HasSubstr("the speed and the data decide the steps")));
    costs.phases[static_cast<std::size_t>(in_epochs)].steps = 100;
    for (int time = 0; time < 2; ++time) {
      divide_hours(costs);
      EXPECT_NEAR(*costs.phases[0].hours() + *costs.phases[1].hours(), 3, 1e-9);
    }
  }
}

TEST_F(PhaseCostsTest, ProcessesShareThePacksOfAStep) {
  const Recipe recipe = this->recipe("unused", {"run.threads=1", "phase.0.micro_batches_per_step=64"});
  const double alone = measure_phases(recipe, vocabulary).phases[0].seconds;
  const double shared = measure_phases(recipe, vocabulary, 32).phases[0].seconds;
  EXPECT_LT(2 * shared, alone);  // about a sixteenth of it, on a machine that may be busy
}

TEST_F(PhaseCostsTest, ADenseBaselineHasNoRanksToAdapt) {
  const Recipe recipe =
      this->recipe("unused", {"run.threads=1", "phase.0.objective='regularize'", "tensorized.enabled=false"});
  EXPECT_EQ(measure_phases(recipe, vocabulary).phases.size(), recipe.phases.size());
}

TEST_F(PhaseCostsTest, PassesHaveNoHoursWithoutData) {
  Recipe recipe = this->recipe("unused", {"run.threads=1"});
  recipe.phases[1].steps.reset();
  recipe.phases[1].epochs = 2.5;
  const PhaseCosts costs = measure_phases(recipe, vocabulary);
  EXPECT_TRUE(costs.phases[0].hours());
  EXPECT_FALSE(costs.phases[1].hours());
  EXPECT_THAT(phase_costs_text(costs), HasSubstr("2.5 passes"));
}

TEST_F(PhaseCostsTest, AdaptingRanksTakesMemoryToo) {
  const auto workspace = [&](const char* objective) {
    const Recipe recipe =
        this->recipe("unused", {"run.threads=1", fmt::format("phase.0.objective='{}'", objective)});
    return bytes_of(measure_phases(recipe, vocabulary).phases[0], MemoryKind::optimizer) +
           bytes_of(measure_phases(recipe, vocabulary).phases[0], MemoryKind::workspace);
  };
  EXPECT_GT(workspace("early"), workspace("fixed"));
}

}  // namespace
}  // namespace comera::test
