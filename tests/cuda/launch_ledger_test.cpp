// How many launches each operation of a training step takes on a GPU, held against docs/launch-ledger.md.
// With COMERA_UPDATE_DOCS=1 in the environment the table is written anew.

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

struct Count {
  std::int64_t calls = 0;
  double launches = 0, gigabytes = 0;
};

// By operation, those with most launches first.
using StepCount = std::vector<std::pair<std::string, Count>>;

StepCount count_of_a_step(std::int64_t tokens) {
  const Recipe recipe =
      load_recipe(COMERA_SOURCE_DIR "/recipes/six_encoder_mnli.toml", {"precision.compute='bf16'"});
  StepBenchmarkOptions options;
  options.config = encoder_config(recipe, 30522);
  options.optimizer = recipe.optim;
  options.tokens = tokens, options.length = 128;
  emulation::machine().computes = false;
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
  emulation::log_calls(nullptr);
  emulation::machine().computes = true;
  StepCount counts;
  for (const ProfileEntry& entry : profile_entries())  // those of most "seconds" first
    counts.emplace_back(entry.name, Count{entry.calls, entry.seconds, entry.work.bytes * 1e-9});
  profile_reset();
  return counts;
}

Count sum_of(const StepCount& counts) {
  Count sum;
  for (const auto& [name, count] : counts) {
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
      "What each operation of one step puts on the stream, kernels, calls of the matrix library and copies, "
      "and the bytes that it must at least read and write: the six-encoder "
      "(`recipes/six_encoder_mnli.toml`) in bfloat16, one pack of 5,120 or 32,768 tokens in sequences of "
      "128, without graphs, AdamW included. Each launch takes two to four microseconds however little it "
      "does; what the library launches for one call is its affair. Counted by a test on the emulated "
      "backend, which fails when the numbers change; `COMERA_UPDATE_DOCS=1 ctest --preset release -R "
      "LaunchLedger` writes this file.\n\n"
      "| operation | calls | launches, 5,120 | GB | launches, 32,768 | GB |\n|---|---|---|---|---|---|\n";
  const auto line = [&](const std::string& name, const Count& a, const Count& b) {
    text += fmt::format("| {} | {} | {:.0f} | {:.3f} | {:.0f} | {:.3f} |\n", name, a.calls, a.launches,
                        a.gigabytes, b.launches, b.gigabytes);
  };
  for (const auto& [name, count] : some) {
    const auto other = std::ranges::find(many, name, [](const auto& entry) { return entry.first; });
    line(name, count, other == many.end() ? Count{} : other->second);
  }
  line("all", sum_of(some), sum_of(many));
  return text;
}

TEST(EmulatedLaunchLedger, IsThatOfTheCode) {
  const std::string file = COMERA_SOURCE_DIR "/docs/launch-ledger.md", expected = ledger_of_a_step();
  if (std::getenv("COMERA_UPDATE_DOCS") != nullptr) std::ofstream(file) << expected;
  std::ostringstream found;
  found << std::ifstream(file).rdbuf();
  EXPECT_EQ(found.str(), expected) << file << " is out of date; write it anew with COMERA_UPDATE_DOCS=1";
}

}  // namespace
}  // namespace comera::test
