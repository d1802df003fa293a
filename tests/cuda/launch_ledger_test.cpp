// The number of launches of each operation in a training step on a GPU, compared with
// docs/lab/launch-ledger.md. With COMERA_UPDATE_DOCS=1 in the environment the table is rewritten.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "bench/stepper.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/cuda_memory.h"
#include "kernels/emulation/runtime.h"
#include "recipes/recipe.h"

namespace comera::test {
namespace {

// Counts the calls of the emulated runtime instead of seconds.
class CallCounter final : public ProfileClock {
 public:
  explicit CallCounter(const std::vector<std::string>& calls) : calls_(calls) {}
  std::size_t mark() noexcept override { return calls_.size(); }
  double seconds_between(std::size_t from, std::size_t to) override { return static_cast<double>(to - from); }

 private:
  const std::vector<std::string>& calls_;
};

// A model of a step on an H200, in milliseconds: fitted to the steps of 5,120, 16,384 and 32,768 tokens, with
// 249, 247 and 246 launches and 2.00, 5.93 and 11.62 GB (bench/results/2026-11-27-h200.md).
constexpr double of_a_launch = 4.696e-3, of_a_gigabyte = 0.5875;

struct Count {
  std::int64_t calls = 0;
  double launches = 0, gigabytes = 0;

  double milliseconds() const { return launches * of_a_launch + gigabytes * of_a_gigabyte; }
};

struct StepCount {
  std::vector<std::pair<std::string, Count>> operations;  // those with most launches first
  double mib = 0;                                         // of memory
};

// While it exists nothing is computed, and calls are logged when requested.
class CountingOnly {
 public:
  CountingOnly() { emulation::machine().computes = false; }
  ~CountingOnly() {
    emulation::log_calls(nullptr);
    emulation::machine().computes = true;
  }
  CountingOnly(const CountingOnly&) = delete;
  CountingOnly& operator=(const CountingOnly&) = delete;
};

StepCount count_of_a_step(std::int64_t tokens) {
  const Recipe recipe =
      load_recipe(COMERA_SOURCE_DIR "/recipes/six_encoder_mnli.toml", {"precision.compute='bf16'"});
  StepBenchmarkOptions options;
  options.config = encoder_config(recipe, 30522);
  options.optimizer = recipe.optim;
  options.tokens = tokens, options.length = 128;
  const CountingOnly counting;
  const auto allocator = cuda_emulated::make_allocator(0);
  Stepper stepper(options, {cuda_emulated::backend(), *allocator, false});
  stepper.step();

  std::vector<std::string> calls;
  CallCounter counter(calls);
  emulation::log_calls(&calls);
  profile_reset();
  Profiling profiling(&counter);
  stepper.step();
  profiling.finish();
  StepCount counts{.operations = {}, .mib = stepper.memory_mib()};
  for (const ProfileEntry& entry : profile_entries())  // those of most "seconds" first
    counts.operations.emplace_back(entry.name, Count{entry.calls, entry.seconds, entry.work.bytes * 1e-9});
  profile_reset();
  return counts;
}

Count sum_of(const StepCount& counts) {
  Count sum;
  for (const auto& [name, count] : counts.operations) {
    sum.calls += count.calls;
    sum.launches += count.launches;
    sum.gigabytes += count.gigabytes;
  }
  return sum;
}

std::string ledger_of_a_step() {
  const StepCount some = count_of_a_step(5120), many = count_of_a_step(32768);
  std::string text =
      "# Launches of a training step on a GPU\n"
      "This page counts what each operation of one training step launches on a GPU, and the bytes that it "
      "moves at least.\n"
      "\n"
      "Launches are kernels, calls of the matrix library and copies. cuBLASLt's internal launches are not "
      "counted. The model\n"
      "is the six-encoder (`recipes/six_encoder_mnli.toml`) in bfloat16, one micro-batch of 5,120 or 32,768 "
      "tokens in\n"
      "sequences of 128, without graphs, AdamW included.\n"
      "\n"
      "The milliseconds are those of a cost model of an H200: 4.7 microseconds for a launch and 0.59 "
      "milliseconds for a\n"
      "gigabyte. They are fitted to three [measured](../../bench/results/2026-11-27-h200.md) steps: 2.37, "
      "4.50 and 8.18 ms\n"
      "with 5,120, 16,384 and 32,768 tokens (the cost model says 2.34, 4.64 and 7.98). Fitted to steps of "
      "some 540 launches\n"
      "it had 3.4 and 0.53, and expected 1.91, 3.98 and 6.99: the launches that were saved since were "
      "cheaper than the rest.\n"
      "\n"
      "A test counts on the emulated backend and fails when the counts change.\n"
      "`COMERA_UPDATE_DOCS=1 ctest --preset release -R LaunchLedger` writes this page.\n"
      "\n"
      "| operation | calls | launches, 5,120 | GB | ms | launches, 32,768 | GB | ms |\n"
      "|---|---|---|---|---|---|---|---|\n";
  const auto line = [&](const std::string& name, const Count& a, const Count& b) {
    text += fmt::format("| {} | {} | {:.0f} | {:.3f} | {:.3f} | {:.0f} | {:.3f} | {:.3f} |\n", name, a.calls,
                        a.launches, a.gigabytes, a.milliseconds(), b.launches, b.gigabytes, b.milliseconds());
  };
  for (const auto& [name, count] : some.operations) {
    const auto other =
        std::ranges::find(many.operations, name, [](const auto& entry) { return entry.first; });
    line(name, count, other == many.operations.end() ? Count{} : other->second);
  }
  line("all", sum_of(some), sum_of(many));
  return text + fmt::format("\nMemory of everything: {:.0f} and {:.0f} MiB.\n", some.mib, many.mib);
}

TEST(EmulatedLaunchLedger, IsThatOfTheCode) {
  const std::string file = COMERA_SOURCE_DIR "/docs/lab/launch-ledger.md", expected = ledger_of_a_step();
  if (std::getenv("COMERA_UPDATE_DOCS") != nullptr) std::ofstream(file) << expected;
  std::ostringstream found;
  found << std::ifstream(file).rdbuf();
  EXPECT_EQ(found.str(), expected) << file << " is out of date; COMERA_UPDATE_DOCS=1 writes it";
}

}  // namespace
}  // namespace comera::test
