// Whole models that train on the emulated CUDA backend.

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>

#include "data/batching/batch.h"
#include "kernels/backends/processors.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/emulation/runtime.h"
#include "kernels/emulation/sanitizers.h"
#include "model/encoder_micro_batches.h"
#include "tests/cuda/training_checks.h"
#include "tests/model/configs.h"
#include "tests/support/harness.h"
#include "tests/training/adapters.h"
#include "tests/training/float8_overrides.h"
#include "tests/training/nonfinite_run.h"
#include "tests/training/trace.h"
#include "training/inference/trained_model.h"
#include "training/step/step_engine.h"

namespace comera::test {
namespace {

using testing::AnyOf;
using testing::Each;
using testing::StartsWith;

TEST(EmulatedTraining, TenLossesAreTheCpusCapturedOrNot) { expect_losses_of_the_cpu(emulated_device()); }

TEST(EmulatedTraining, StreamsMayRunLateAndInAnyOrder) {
  const emulation::Machine before = emulation::machine();
  expect_the_same_losses_in_any_order(emulated_device(),
                                      [](std::uint64_t seed) { emulation::machine().seed = seed; });
  emulation::machine() = before;
}

TEST(EmulatedTraining, NarrowActivationsLearnAsDoubleDoes) { expect_narrow_losses(emulated_device()); }

TEST(EmulatedTraining, RoundedOperandsLearnAsDoubleDoes) {
  expect_tf32_losses(emulated_device(true), emulated_device());
}

TEST(EmulatedTraining, NarrowGradientsAreThoseOfDouble) { expect_narrow_gradients(emulated_device()); }

TEST(EmulatedTraining, ClicksAreLearntAsOnTheCpu) { expect_click_losses(emulated_device()); }

TEST(EmulatedTraining, EveryLookupGivesTheSameLosses) { expect_every_lookup_to_agree(emulated_device()); }

TEST(EmulatedTraining, LogitsAreThoseOfTheCpu) { expect_logits_of_the_cpu(emulated_device()); }

TEST(EmulatedFeed, BlocksArriveInOrderAndAreKeptUntilTheyAreTaken) {
  expect_blocks_in_order(emulated_device());
}

// What is said to fit does, and not much more would have.
TEST(EmulatedMemory, WithoutEnoughTheTokensThatFitAreNamed) {
  const std::size_t before = emulation::machine().memory;
  const TestDevice device = emulated_device();
  EncoderConfig config = small_config(true);
  config.compute = DType::float32;
  Model model(config, device.with_graphs.allocator, true);
  StepEngine engine(model, {}, device.with_graphs);
  const std::size_t of_the_model = before - device.allocator->available();
  emulation::machine().memory = 4 << 20;
  const auto refusal = [&](std::int64_t tokens) -> std::string {
    try {
      engine.set_micro_batches(EncoderMicroBatches(model, {.tokens = tokens,
                                                           .sequences = tokens / 8,
                                                           .longest = 16,
                                                           .masked = tokens / 4,
                                                           .unique_ids = 29}));
    } catch (const OutOfMemory& error) {
      return error.what();
    }
    return "";
  };
  const std::string message = refusal(1 << 16);
  int fit = 0;
  const std::string advice = "set tokens_per_micro_batch to ";
  const std::size_t at = message.find(advice);
  EXPECT_NE(at, std::string::npos) << message;
  if (at != std::string::npos) fit = std::stoi(message.substr(at + advice.size()));
  EXPECT_GT(fit, 64);
  EXPECT_EQ(refusal(fit), "");
  EXPECT_NE(refusal(fit + fit / 10 + 64), "");
  EXPECT_EQ(refusal(fit), "");  // nothing was lost on the way
  emulation::machine().memory = of_the_model + (20 << 10);
  EXPECT_THAT(refusal(1 << 16), testing::HasSubstr("not even one sequence of 16 tokens fits"));
  emulation::machine().memory = before;
}

// One of two processes, whose sums launch nothing here.
class OneOfTwo final : public Communicator {
 public:
  OneOfTwo() : Communicator(0, 2) {}
  void begin_sum(const Tensor& values, const Stream&) override { sums.push_back(values.elements()); }
  void begin_max(const Tensor&, const Stream&) override {}
  void together(const Stream&, const std::function<void()>& begin_all) override {
    ++groups;
    begin_all();
  }
  void finish(const Stream&) override {}
  void sum(std::span<double>) override {}
  std::string broadcast(const std::string& text) override { return text; }
  std::vector<std::string> gather(const std::string& text) override { return {text, text}; }
  void fail(int, const std::string& message) override { throw Error(message); }
  std::vector<std::int64_t> sums;
  int groups = 0;
};

std::int64_t launches_of_a_micro_batch(Model& model, const TestDevice& device, Communicator* communicator,
                                       std::vector<std::string>* log = nullptr) {
  StepEngine engine(model, {}, device.without);
  if (communicator != nullptr) engine.join(*communicator, 1);
  const MicroBatchCapacity capacity{
      .tokens = 64, .sequences = 8, .longest = 16, .masked = 16, .unique_ids = 29};
  engine.set_micro_batches(EncoderMicroBatches(model, capacity));
  data::Batch batch(capacity);
  const std::vector<std::int32_t> ids(16, 3), positions{1}, targets{2};
  batch.add_sequence(ids.data(), nullptr, 16, positions, targets, 0);
  data::finish_batch(batch, model.token_embedding().right_rows());
  engine.load(batch.block());
  std::vector<std::string> calls;
  emulation::log_calls(&calls);
  engine.micro({});
  emulation::log_calls(nullptr);
  if (log != nullptr) *log = calls;
  return std::ranges::count_if(calls, [](const std::string& call) { return call.starts_with("launch"); });
}

class EmulatedSums : public testing::Test {
 protected:
  ~EmulatedSums() override {
    emulation::log_calls(nullptr);
    emulation::machine() = before_;
  }
  emulation::Machine before_ = emulation::machine();
};

// Gradients of cores are made together, as in a process alone, and summed in one group.
TEST_F(EmulatedSums, OtherProcessesDoNotAddLaunchesToASmallModel) {
  const TestDevice device = emulated_device();
  emulation::machine().computes = false;
  EncoderConfig config = small_config(true);
  config.compute = DType::bfloat16;
  Model model(config, device.with_graphs.allocator, true);
  OneOfTwo communicator;
  const std::int64_t launches = launches_of_a_micro_batch(model, device, &communicator);
  EXPECT_EQ(communicator.groups, 1);
  EXPECT_THAT(communicator.sums, testing::ElementsAre(model.parameters().gradients().elements(), 3));
  EXPECT_EQ(launches, launches_of_a_micro_batch(model, device, nullptr));
}

std::int64_t launches_of(const std::vector<std::string>& calls, std::string_view kernel) {
  return std::ranges::count_if(calls, [&](const std::string& call) {
    return call.starts_with("launch") && call.find(kernel) != std::string::npos;
  });
}

// However many layers there are, and also where Q, K and V are formed.
TEST_F(EmulatedSums, TheCoresOfAllLayersAreContractedTogether) {
  const TestDevice device = emulated_device();
  emulation::machine().computes = false;
  for (const HeadKind head : {HeadKind::mlm, HeadKind::classification})
    for (const PlanKind plan : {PlanKind::automatic, PlanKind::factors})
      for (const std::int64_t layers : {1, 3}) {
        EncoderConfig config = small_config(true, head);
        config.compute = DType::bfloat16;
        config.layers = layers;
        config.tensorized.plan = plan;
        Model model(config, device.with_graphs.allocator, true);
        std::vector<std::string> calls;
        launches_of_a_micro_batch(model, device, nullptr, &calls);
        EXPECT_EQ(launches_of(calls, "core_gradients"), 1) << name_of(plan) << ", layers: " << layers;
        EXPECT_EQ(launches_of(calls, "fill_regions"), 1) << name_of(plan) << ", layers: " << layers;
      }
}

// Whose gradients of factors wait too, but not their products over the tokens. The CPU's token table has the
// GPU's bits with AVX2; where another's last bit differs, 8 bits make a tenth of the small gradients of it.
TEST(EmulatedTraining, EightBitGradientsAreThoseOfTheCpu) {
  const TestDevice device = emulated_device();
  EncoderConfig config = small_config(true);
  config.compute = DType::bfloat16;
  config.float8 = Float8Config{};
  config.hidden = config.ffn = 64, config.heads = 2;
  config.tensorized.attention = config.tensorized.ffn_up = config.tensorized.ffn_down =
      config.tensorized.head = TTShape{{8, 8}, {8, 8}, {2, 3, 2}};
  config.tensorized.embedding = TTMShape{{4, 2, 4}, {4, 4, 4}, {5, 6}};
  config.tensorized.plan = PlanKind::factors;
  const Processor cpu{cpu_backend("v3"), host_allocator()};
  const auto exact = gradients(config, cpu), got = gradients(config, device.without);
  ASSERT_EQ(got.size(), exact.size());
  const auto norm = [](const std::vector<double>& values) {
    return std::sqrt(std::inner_product(values.begin(), values.end(), values.begin(), 0.0));
  };
  double largest = 0;
  for (const auto& [name, values] : exact) largest = std::max(largest, norm(values));
  for (const auto& [name, values] : exact)
    EXPECT_LE(relative_error(got.at(name), values) * norm(values), 0.1 * norm(values) + 2e-3 * largest)
        << name;
}

// A block's gradients are complete when they are announced, those of the head's layer too.
TEST(EmulatedTraining, GradientsAreCompleteWhenAnnounced) {
  const TestDevice device = emulated_device();
  for (const DType compute : {DType::float32, DType::bfloat16}) {
    EncoderConfig config = small_config(true);
    config.compute = compute;
    config.tensorized.plan = PlanKind::factors;
    const auto together = gradients(config, device.without);
    std::map<std::string, std::vector<double>> announced;
    const auto apart =
        gradients(config, device.without, [&](const ParameterStore& store, const auto& ranges) {
          for (const ParameterId id : store.layout())
            for (const ParameterRange& range : ranges)
              if (store.offset(id) >= range.begin && store.offset(id) < range.begin + range.count)
                announced[store.info(id).name] = read_tensor(store.gradient(id), *device.allocator);
        });
    EXPECT_EQ(announced, apart);
    ASSERT_EQ(apart.size(), together.size());
    for (const auto& [name, values] : together)
      EXPECT_LE(relative_error(apart.at(name), values), 1e-5) << name;
  }
}

class EmulatedRun : public RunFixture {
 protected:
  ~EmulatedRun() override { emulation::log_calls(nullptr); }
  TestDevice device_ = emulated_device();
};

TEST_F(EmulatedRun, LearnsAsTheCpuDoes) { expect_to_learn_as_the_cpu_does(device_); }

TEST_F(EmulatedRun, ReplayedNotReplayedAndResumedGiveTheSameBits) { expect_the_same_bits_each_way(device_); }

TEST_F(EmulatedRun, AveragesAreResumed) {
  expect_the_same_bits_each_way(device_, {"optim.average_decay=0.9"}, {9});
}

TEST_F(EmulatedRun, AdaptsRanks) { expect_to_adapt_ranks(device_); }

TEST_F(EmulatedRun, EightBitRunsAreResumed) {
  expect_the_same_bits_each_way(device_, in_float8("delayed"), {9});
}

TEST_F(EmulatedRun, EightBitRunsBesideFloat32LearnAsTheCpuDoes) {
  const std::vector<std::string> mixed = in_float8("current", {"precision.compute=fp8_fp32"});
  train("whole", device_.with_graphs, {}, mixed);
  train("on the cpu", cpu_processor(), {}, mixed);
  const std::vector<double> expected = losses("on the cpu"), found = losses("whole");
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-2 * expected[i]) << i;
}

// Merges are recorded; the run is stopped between two of them.
TEST_F(EmulatedRun, AdaptersAreMergedAndResumed) {
  expect_the_same_bits_each_way(device_, with_adapters(), {8});
  train("on the cpu", cpu_processor(), {}, with_adapters());
  const std::vector<double> expected = losses("on the cpu"), found = losses("whole");
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-4 * expected[i]) << i;
}

// A GPU's bfloat16 run goes on to the same bits, and the CPU evaluates it in either type.
TEST_F(EmulatedRun, NarrowRunsAreResumedAndLoadedByTheCpu) {
  expect_the_same_bits_each_way(device_, {"precision.compute='bf16'"}, {9});
  const LoadedModel loaded(folder() / "whole", {}, {}, "cpu");
  EXPECT_EQ(loaded.recipe.precision.compute, Compute::bf16);
  EXPECT_EQ(loaded.model.parameters().compute(), DType::bfloat16);
  const LoadedModel wide(folder() / "whole", {}, {"precision.compute='fp32'"}, "cpu");
  EXPECT_EQ(wide.model.parameters().compute(), DType::float32);
}

class EmulatedNonfinite : public NonfiniteRun {
 protected:
  void SetUp() override {
    if (COMERA_ASAN || COMERA_TSAN) GTEST_SKIP() << "too slow; the same steps run without sanitizers";
    device_.emplace(emulated_device());
    processor_ = &device_->with_graphs;
  }
  std::optional<TestDevice> device_;
};

TEST_F(EmulatedNonfinite, ASkippedStepChangesNothingAndIsCounted) {
  expect_a_skipped_step_to_change_nothing();
}

TEST_F(EmulatedNonfinite, AFullRowStopsWithACheckpointToGoOnFrom) {
  expect_a_full_row_to_stop_and_to_go_on();
}

// In a steady step the host only sends batches and values, launches recordings, and reads the results.
TEST_F(EmulatedRun, ASteadyStepLaunchesRecordingsOnly) {
  std::vector<std::string> calls;
  TrainingOptions options;
  options.after_step = [&](std::int64_t step) {
    if (step == 2) emulation::log_calls(&calls);  // by which everything was recorded
    if (step == 3) emulation::log_calls(nullptr);
  };
  train("run", device_.with_graphs, options, {"run.evaluation_interval=0", "run.checkpoint_interval=0"});
  const auto count = [&](std::string_view prefix) {
    return std::ranges::count_if(calls, [&](const std::string& call) { return call.starts_with(prefix); });
  };
  EXPECT_THAT(calls, Each(AnyOf(StartsWith("graph launch"), StartsWith("copy to device"),
                                StartsWith("copy within the device"), StartsWith("copy to host"),
                                StartsWith("synchronize"))));
  EXPECT_EQ(count("graph launch"), 3);  // two micro-batches, one update
  EXPECT_EQ(count("copy to device"),
            6);  // results cleared; a batch and its values, twice; the update's values
  EXPECT_EQ(count("copy within the device"), 6);
  EXPECT_EQ(count("copy to host"), 1);
}

}  // namespace
}  // namespace comera::test
