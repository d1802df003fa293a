// Whole models that train on the emulated CUDA backend.

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "kernels/backends/processors.h"
#include "kernels/cpu/plain/plain_backend.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/cuda_memory.h"
#include "kernels/emulation/runtime.h"
#include "kernels/emulation/sanitizers.h"
#include "recipes/run/inference_engine.h"
#include "tests/model/configs.h"
#include "tests/training/trace.h"
#include "tests/training/training_fixture.h"

namespace comera::test {
namespace {

// Sanitizers multiply the time of emulated kernels by ten: then runs are shorter, and fewer.
constexpr bool sanitized = COMERA_ASAN || COMERA_TSAN;

using testing::AnyOf;
using testing::Each;
using testing::StartsWith;

// A GPU of its own for each test.
struct EmulatedDevice {
  std::unique_ptr<Allocator> allocator = cuda_emulated::make_allocator(0);
  Processor with_graphs{cuda_emulated::backend(), *allocator, true};
  Processor without{cuda_emulated::backend(), *allocator, false};
};

TEST(EmulatedTraining, TenLossesAreTheCpusCapturedOrNot) {
  for (const bool tensorized : {true, false})
    for (const NormPlacement norm : {NormPlacement::post, NormPlacement::pre}) {
      if (sanitized && norm == NormPlacement::pre) continue;
      EncoderConfig config = small_config(tensorized, HeadKind::mlm, norm);
      const std::vector<double> exact = trace(config, {plain_backend(), host_allocator()});
      config.compute = DType::float32;
      const EmulatedDevice device;
      const std::vector<double> got = trace(config, device.with_graphs);
      EXPECT_EQ(got, trace(config, device.without));
      ASSERT_EQ(got.size(), 10u);
      for (int i = 0; i < 10; ++i) EXPECT_NEAR(got[i], exact[i], 1e-5 * exact[i]) << "step " << i;
    }
}

// The same ten steps; what 8 bits of activations make of them.
TEST(EmulatedTraining, NarrowActivationsLearnAsDoubleDoes) {
  for (const bool tensorized : {true, false}) {
    EncoderConfig config = small_config(tensorized);
    const std::vector<double> exact = trace(config, {plain_backend(), host_allocator()});
    config.compute = DType::bfloat16;
    const EmulatedDevice device;
    const std::vector<double> got = trace(config, device.with_graphs);
    if (!sanitized) EXPECT_EQ(got, trace(config, device.without));
    ASSERT_EQ(got.size(), 10u);
    for (int i = 0; i < 10; ++i) EXPECT_NEAR(got[i], exact[i], 0.03 * exact[i]) << "step " << i;
  }
}

TEST(EmulatedTraining, EveryLookupGivesTheSameLosses) {
  EncoderConfig config = small_config(true);
  config.compute = DType::float32;
  const EmulatedDevice device;
  std::vector<std::vector<double>> losses;
  for (const LookupKind lookup : {LookupKind::halves, LookupKind::unique, LookupKind::naive}) {
    if (sanitized && lookup == LookupKind::unique) continue;  // as naive, with fewer ids
    config.tensorized.lookup = lookup;
    losses.push_back(trace(config, device.with_graphs));
  }
  for (std::size_t other = 1; other < losses.size(); ++other)
    for (int i = 0; i < 10; ++i)
      EXPECT_NEAR(losses[other][i], losses[0][i], 1e-5 * losses[0][i]) << "step " << i;
}

// A whole run: two phases of other sizes, accumulation, warm-up, dropout, evaluation, checkpoints.
class EmulatedRun : public TrainingFixture {
 protected:
  ~EmulatedRun() override { emulation::log_calls(nullptr); }

  TrainingOutcome train(const std::string& run, const Processor* processor, TrainingOptions options = {},
                        std::vector<std::string> overrides = {}) {
    overrides.emplace_back("run.log_interval=1");
    if (sanitized)
      for (const char* shorter :
           {"phase.0.steps=2", "phase.0.warmup_steps=1", "phase.1.steps=2", "run.evaluation_batches=1"})
        overrides.emplace_back(shorter);
    std::FILE* null = std::fopen("/dev/null", "w");
    options.output = null;
    options.processor = processor;
    TrainingOutcome outcome = TrainingRun(recipe(run, overrides), options).run();
    std::fclose(null);
    return outcome;
  }
  std::vector<double> losses(const std::string& run) const {
    std::ifstream file(folder() / run / "metrics.jsonl");
    std::vector<double> all;
    for (std::string line; std::getline(file, line);) {
      const auto values = nlohmann::json::parse(line);
      if (values.contains("loss")) all.push_back(values["loss"]);
    }
    return all;
  }
  static constexpr std::size_t steps = sanitized ? 4 : 12;  // of the fixture's recipe: 7 and 5
  EmulatedDevice device_;
};

TEST_F(EmulatedRun, LearnsAsTheCpuDoes) {
  const Processor cpu = cpu_processor();
  const TrainingOutcome on_cpu = train("cpu", &cpu);
  const TrainingOutcome on_gpu = train("gpu", &device_.with_graphs);
  const std::vector<double> expected = losses("cpu"), got = losses("gpu");
  ASSERT_EQ(expected.size(), steps);
  ASSERT_EQ(got.size(), steps);
  for (std::size_t i = 0; i < steps; ++i)
    EXPECT_NEAR(got[i], expected[i], 2e-5 * expected[i]) << "step " << i;
  EXPECT_NEAR(on_gpu.evaluation->loss, on_cpu.evaluation->loss, 2e-5 * on_cpu.evaluation->loss);
}

TEST_F(EmulatedRun, ReplayedNotReplayedAndResumedGiveTheSameBits) {
  const TrainingOutcome whole = train("whole", &device_.with_graphs);
  const TrainingOutcome plain = train("plain", &device_.without, {}, {"run.graphs=false"});
  EXPECT_EQ(losses("whole"), losses("plain"));
  EXPECT_EQ(whole.evaluation->loss, plain.evaluation->loss);
  for (const int stop : {1, 9}) {
    if (stop > static_cast<int>(steps)) continue;
    const std::string run = fmt::format("stopped-{}", stop);
    train(run, &device_.with_graphs, {.stop_after = stop});
    const TrainingOutcome second = train(run, &device_.with_graphs, {.mode = RunMode::resume});
    expect_equal_checkpoints(whole.checkpoint, second.checkpoint);
    EXPECT_EQ(whole.evaluation->loss, second.evaluation->loss);
  }
}

// In a steady step the host only sends batches and values, launches recordings, and reads the results.
TEST_F(EmulatedRun, ASteadyStepLaunchesRecordingsOnly) {
  std::vector<std::string> calls;
  TrainingOptions options;
  options.after_step = [&](std::int64_t step) {
    if (step == 2) emulation::log_calls(&calls);  // recorded in step 1
    if (step == 3) emulation::log_calls(nullptr);
  };
  train("run", &device_.with_graphs, options, {"run.evaluation_interval=0", "run.checkpoint_interval=0"});
  const auto count = [&](std::string_view prefix) {
    return std::ranges::count_if(calls, [&](const std::string& call) { return call.starts_with(prefix); });
  };
  EXPECT_THAT(calls, Each(AnyOf(StartsWith("graph launch"), StartsWith("copy to device"),
                                StartsWith("copy within the device"), StartsWith("copy to host"),
                                StartsWith("synchronize"))));
  EXPECT_EQ(count("graph launch"), 3);  // two packs, one update
  EXPECT_EQ(count("copy to device"),
            6);  // results cleared; a batch and its values, twice; the update's values
  EXPECT_EQ(count("copy within the device"), 6);
  EXPECT_EQ(count("copy to host"), 1);
}

TEST(EmulatedFeed, BlocksArriveInOrderAndAreKeptUntilTheyAreTaken) {
  const EmulatedDevice device;
  Allocator& allocator = *device.allocator;
  const Buffer place(allocator, 64, MemoryKind::workspace);
  const auto feed = allocator.feed(place.data(), 64);
  std::set<void*> hosts;
  for (int block = 0; block < 5; ++block) {
    const std::vector<std::byte> sent(64, static_cast<std::byte>(block + 1));
    void* memory = feed->next();
    hosts.insert(memory);
    std::memcpy(memory, sent.data(), 64);
    feed->send();
    std::vector<std::byte> got(64);
    allocator.download(got.data(), place.data(), 64, allocator.stream());
    allocator.synchronize(allocator.stream());
    EXPECT_EQ(got, sent);
  }
  EXPECT_EQ(hosts.size(), 2u);  // one is filled while the other is under way
}

}  // namespace
}  // namespace comera::test
