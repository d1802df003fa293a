// How many launches each operation of a training step takes on a GPU, held against docs/launch-ledger.md.
// With COMERA_UPDATE_DOCS=1 in the environment the table is written anew.

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

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

std::string ledger_of_a_step() {
  const Recipe recipe =
      load_recipe(COMERA_SOURCE_DIR "/recipes/six_encoder_mnli.toml", {"precision.compute='bf16'"});
  StepBenchmarkOptions options;
  options.config = encoder_config(recipe, 30522);
  options.optimizer = recipe.optim;
  options.tokens = 64, options.length = 32;
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
  const std::vector<ProfileEntry> entries = profile_entries();  // most launches first
  profile_reset();

  std::string text =
      "# Launches of a training step on a GPU\n"
      "Kernels, calls of the matrix library and copies that each operation of one step puts on the stream: "
      "the "
      "six-encoder (`recipes/six_encoder_mnli.toml`) in bfloat16, one pack of 64 tokens (sums over more of "
      "them may take a launch more), without graphs, AdamW included. "
      "Each "
      "takes two to four microseconds however little it does. Counted by a test on the emulated backend, "
      "which "
      "fails when the numbers change; `COMERA_UPDATE_DOCS=1 ctest --preset release -R LaunchLedger` writes "
      "this "
      "file.\n\n"
      "| operation | calls | launches |\n|---|---|---|\n";
  std::int64_t called = 0;
  double launched = 0;
  for (const ProfileEntry& entry : entries) {
    text += fmt::format("| {} | {} | {:.0f} |\n", entry.name, entry.calls, entry.seconds);
    called += entry.calls;
    launched += entry.seconds;
  }
  return text + fmt::format("| all | {} | {:.0f} |\n", called, launched);
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
