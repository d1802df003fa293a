#include "distributed/gradient_sum.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "kernels/core/tensors/memory.h"
#include "model/model.h"
#include "tests/model/configs.h"

namespace comera::test {
namespace {

// Notes which elements are summed, in which calls.
class Noting final : public Communicator {
 public:
  Noting() : Communicator(0, 2) {}
  void begin_sum(const Tensor& values, const Stream&) override {
    calls.push_back({values.data<float>() - base, values.elements()});
  }
  void begin_max(const Tensor&, const Stream&) override {}
  void together(const Stream&, const std::function<void()>& begin_all) override {
    const std::size_t before = calls.size();
    begin_all();
    groups.push_back(calls.size() - before);
  }
  void finish(const Stream&) override {}
  void sum(std::span<double>) override {}
  std::string broadcast(const std::string& text) override { return text; }
  std::vector<std::string> gather(const std::string& text) override { return {text, text}; }
  void fail(int, const std::string& message) override { throw_error(message); }

  const float* base = nullptr;
  std::vector<ParameterRange> calls;
  std::vector<std::size_t> groups;  // calls in each
};

// Every gradient once, none twice, in as few calls as the size of buckets allows.
TEST(GradientSum, SumsEveryGradientOnce) {
  for (const bool tensorized : {true, false}) {
    const Model model(small_config(tensorized), host_allocator(), true);
    const ParameterStore& store = model.parameters();
    std::size_t calls_before = 1 << 20;
    for (const std::int64_t bucket : {std::int64_t{1}, std::int64_t{4096}, std::int64_t{1} << 30}) {
      Noting processes;
      processes.base = static_cast<const float*>(store.gradients().raw());
      Tensor gradients(store.gradients().raw(), store.gradients().shape(), DType::float32);
      GradientSum sum(processes, gradients, bucket);
      for (int block = store.blocks(); block-- > 0;) sum.ready(store.block_ranges(block), {});
      sum.flush({});
      std::vector<int> times(static_cast<std::size_t>(gradients.elements()));
      for (const ParameterRange& call : processes.calls)
        for (std::int64_t i = 0; i < call.count; ++i) ++times[static_cast<std::size_t>(call.begin + i)];
      for (const ParameterId id : store.layout())
        for (std::int64_t i = 0; i < store.info(id).shape.elements(); ++i)
          ASSERT_EQ(times[static_cast<std::size_t>(store.offset(id) + i)], 1) << store.info(id).name;
      for (const int count : times) ASSERT_LE(count, 1);
      EXPECT_LT(processes.calls.size(), calls_before);
      calls_before = processes.calls.size();
    }
    EXPECT_LE(calls_before, static_cast<std::size_t>(trained_roles));  // all in one bucket
  }
}

// Only padding is summed with what lies beside it: a tensor between two others may not be ready.
TEST(GradientSum, LeavesOutWhatIsBetween) {
  std::vector<float> memory(256);
  Noting processes;
  processes.base = memory.data();
  GradientSum sum(processes, Tensor(memory.data(), {256}, DType::float32), 1 << 20);
  sum.ready({{.begin = 160, .count = 40}}, {});
  sum.ready({{.begin = 128, .count = 20}}, {});  // 12 numbers before it
  sum.ready({{.begin = 64, .count = 40}}, {});   // 24
  sum.flush({});
  ASSERT_EQ(processes.calls.size(), 2u);
  EXPECT_EQ(processes.calls[0].begin, 128);
  EXPECT_EQ(processes.calls[0].count, 72);
  EXPECT_EQ(processes.calls[1].begin, 64);
  EXPECT_EQ(processes.calls[1].count, 40);
}

// On a GPU a pass that announces its gradients takes more launches than the sum of few gradients is worth.
TEST(GradientSum, SumsFewGradientsOfAGpuAtOnce) {
  constexpr std::int64_t limit = GradientSum::least_overlapping / 4;
  std::vector<float> memory(limit);
  Noting processes;
  processes.base = memory.data();
  const auto gradients = [&](std::int64_t count, DeviceKind kind) {
    return Tensor(memory.data(), {count}, DType::float32, Device{kind, 0});
  };
  EXPECT_TRUE(GradientSum(processes, gradients(limit, DeviceKind::cuda), 1).overlaps());
  EXPECT_TRUE(GradientSum(processes, gradients(16, DeviceKind::cpu), 1).overlaps());
  GradientSum few(processes, gradients(limit - 16, DeviceKind::cuda), 1);
  EXPECT_FALSE(few.overlaps());
  few.flush({});
  ASSERT_EQ(processes.calls.size(), 1u);
  EXPECT_EQ(processes.calls[0].begin, 0);
  EXPECT_EQ(processes.calls[0].count, limit - 16);
}

// A recording may fail in the middle of a pass, which is then run again.
TEST(GradientSum, ForgetsAPassThatFailed) {
  std::vector<float> memory(64);
  Noting processes;
  processes.base = memory.data();
  GradientSum sum(processes, Tensor(memory.data(), {64}, DType::float32), 1 << 20);
  sum.ready({{.begin = 0, .count = 16}}, {});
  sum.begin_pass();
  sum.ready({{.begin = 0, .count = 16}}, {});
  sum.flush({});
  ASSERT_EQ(processes.calls.size(), 1u);
  EXPECT_EQ(processes.calls[0].count, 16);
}

// All ranges of a bucket in one group, but no more than the bucket.
TEST(GradientSum, ABucketIsOneGroup) {
  std::vector<float> memory(256);
  Noting processes;
  processes.base = memory.data();
  GradientSum sum(processes, Tensor(memory.data(), {256}, DType::float32), 1);
  sum.ready({{.begin = 0, .count = 40}, {.begin = 128, .count = 40}}, {});
  sum.ready({{.begin = 64, .count = 40}}, {});
  EXPECT_EQ(processes.groups, (std::vector<std::size_t>{2, 1}));
}

}  // namespace
}  // namespace comera::test
