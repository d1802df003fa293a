#include "tests/cuda/step_ledger.h"

#include <algorithm>

#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/cuda_memory.h"
#include "kernels/emulation/runtime.h"
#include "measurements/stepper.h"

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

// As long as it lives nothing is computed, memory is an H200's, and calls can be written down.
class CountingOnly {
 public:
  CountingOnly() : before_(emulation::machine()) {
    emulation::machine().computes = false;
    emulation::machine().memory = 141'000'000'000;
  }
  ~CountingOnly() {
    emulation::log_calls(nullptr);
    emulation::machine() = before_;
  }
  CountingOnly(const CountingOnly&) = delete;
  CountingOnly& operator=(const CountingOnly&) = delete;

 private:
  emulation::Machine before_;
};

StepCount count_of_a_step(Stepper& stepper) {
  std::vector<std::string> calls;
  CallCounter counter(calls);
  emulation::log_calls(&calls);
  profile_reset();
  Profiling profiling(&counter);
  stepper.step();
  profiling.finish();
  emulation::log_calls(nullptr);
  StepCount counts{.operations = {}, .mib = stepper.memory_mib()};
  for (const ProfileEntry& entry : profile_entries())  // those of most "seconds" first
    counts.operations.push_back(
        {.name = entry.name, .calls = entry.calls, .launches = entry.seconds, .work = entry.work});
  profile_reset();
  return counts;
}

// With `announced`, if it is given.
StepCount count(StepBenchmarkOptions options, StepCount* announced) {
  options.initialize = false;
  const CountingOnly counting;
  const auto allocator = cuda_emulated::make_allocator(0);
  Stepper stepper(options, {cuda_emulated::backend(), *allocator, false});
  StepCount together = count_of_a_step(stepper);
  if (announced == nullptr) return together;
  stepper.announce_gradients();
  stepper.set_batch(options);
  *announced = count_of_a_step(stepper);
  return together;
}

}  // namespace

OperationCount StepCount::find(const std::string& name) const {
  const auto found = std::ranges::find(operations, name, &OperationCount::name);
  return found == operations.end() ? OperationCount{.name = name, .work = {}} : *found;
}

OperationCount StepCount::all() const {
  OperationCount sum{.name = "all", .work = {}};
  for (const OperationCount& operation : operations) sum += operation;
  return sum;
}

double StepCount::milliseconds(const time_model::Rates& rates) const {
  double sum = 0;
  for (const OperationCount& operation : operations) sum += test::milliseconds(operation, rates);
  return sum;
}

StepBenchmarkOptions step_of(const Recipe& recipe, std::int64_t tokens, std::int64_t length) {
  StepBenchmarkOptions options;
  options.config = config_of(recipe);
  options.optimizer = recipe.optim;
  options.tokens = tokens, options.length = length;
  options.mask_probability = recipe.phases.at(0).largest_mask_probability(recipe.data.mask_probability);
  return options;
}

StepCount count_of(const StepBenchmarkOptions& options) { return count(options, nullptr); }

BothCounts counts_of(const StepBenchmarkOptions& options) {
  BothCounts both;
  both.together = count(options, &both.announced);
  return both;
}

}  // namespace comera::test
