#include "bench/methods_benchmark.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <numeric>

#include "bench/stepper.h"
#include "kernels/backends/backends.h"
#include "kernels/backends/processors.h"
#include "training/phase.h"

namespace comera {

namespace {

std::array<std::size_t, memory_kinds> memory_in_use(const Allocator& allocator) {
  std::array<std::size_t, memory_kinds> bytes{};
  for (int kind = 0; kind < memory_kinds; ++kind)
    bytes[kind] = allocator.use(static_cast<MemoryKind>(kind)).current;
  return bytes;
}

StepBenchmarkOptions step_options(const MethodsBenchmarkOptions& options, const Method& method,
                                  std::int64_t batch) {
  StepBenchmarkOptions step;
  step.config = encoder_config(method.recipe, options.vocabulary);
  step.optimizer = method.recipe.optim;
  step.tokens = batch * options.length;
  step.length = options.length;
  return step;
}

// One method's model, whose memory is all that was taken between its beginning and its end.
class MethodTimer {
 public:
  MethodTimer(const MethodsBenchmarkOptions& options, const Method& method, const Processor& processor)
      : options_(options),
        method_(method),
        allocator_(processor.allocator),
        before_(memory_in_use(allocator_)),
        stepper_(step_options(options, method, options.batches.front()), processor) {}

  MethodCost cost(std::int64_t batch) {
    stepper_.set_batch(step_options(options_, method_, batch));
    MethodCost cost{.batch = batch};
    const auto now = memory_in_use(allocator_);
    for (int kind = 0; kind < memory_kinds; ++kind) cost.bytes[kind] = now[kind] - before_[kind];
    // An arena is one block; what of it is scratch is no activation.
    const Arena::Plan& plan = stepper_.arena_plan();
    const std::size_t scratch = plan.total - plan.saved;
    cost.bytes[static_cast<int>(MemoryKind::activations)] -= scratch;
    cost.bytes[static_cast<int>(MemoryKind::workspace)] += scratch;
    return cost;
  }
  double step() { return stepper_.step(); }
  double merge() { return stepper_.merge(); }
  double refresh() { return stepper_.refresh(); }
  std::int64_t parameters() { return stepper_.parameters().count(); }

 private:
  const MethodsBenchmarkOptions& options_;
  const Method& method_;
  Allocator& allocator_;
  std::array<std::size_t, memory_kinds> before_;
  Stepper stepper_;
};

// Enough steps for a quick one to be timed well.
std::vector<double> times(MethodTimer& timer) {
  timer.step();  // memory is touched for the first time
  std::vector<double> seconds = {timer.step()};
  while (std::ssize(seconds) < 5 && std::reduce(seconds.begin(), seconds.end()) < 1)
    seconds.push_back(timer.step());
  return seconds;
}

}  // namespace

std::size_t MethodCost::total_bytes() const { return std::reduce(bytes.begin(), bytes.end()); }

double MethodResult::mean_seconds(const MethodCost& cost) const {
  return cost.seconds +
         (occasional_steps > 0 ? occasional_seconds / static_cast<double>(occasional_steps) : 0);
}

MethodsReport benchmark_methods(const MethodsBenchmarkOptions& options) {
  COMERA_CHECK(!options.methods.empty() && !options.batches.empty(), "there is nothing to measure");
  const Recipe& recipe = options.methods.front().recipe;
  const EncoderConfig config = encoder_config(recipe, options.vocabulary);
  Processor processor = find_processor(options.device, config.compute, recipe.precision.operands());
  processor.graphs = true;
  const auto say = [&](const std::string& line) {
    if (options.say) options.say(line);
  };
  MethodsReport report;
  report.length = options.length;
  report.model = fmt::format("{} layers of {}, vocabulary {}, {}", config.layers, config.hidden,
                             config.vocabulary, name_of(recipe.precision.compute));
  report.machine =
      processor.allocator.device().kind == DeviceKind::cuda
          ? std::string(processor.backend.name())
          : fmt::format("CPU, {} threads, instruction set {}", thread_count(), instruction_set());

  std::vector<std::vector<std::vector<double>>> seconds(options.methods.size());  // by method and batch
  for (const Method& method : options.methods) {
    report.results.push_back(
        {.name = method.name, .detail = method.detail, .occasional_work = {}, .costs = {}});
    seconds[report.results.size() - 1].resize(options.batches.size());
    for (const std::int64_t batch : options.batches) {
      check_lengths(step_options(options, method, batch));
      const auto& lte = method.recipe.lte;
      if (lte && batch * options.length % lte->num_heads != 0)
        throw UsageError(
            fmt::format("a step of {} sequences of {} tokens cannot be divided among LTE's {} heads; give "
                        "--num-heads another number, or leave the method out",
                        batch, options.length, lte->num_heads));
    }
  }
  for (int round = 0; round < options.rounds; ++round) {
    for (std::size_t m = 0; m < options.methods.size(); ++m) {
      const Method& method = options.methods[m];
      MethodResult& result = report.results[m];
      MethodTimer timer(options, method, processor);
      timer.cost(options.batches.front());
      timer.step();
      if (round == 0 && method.recipe.optim.kind == OptimizerKind::galore) {
        result.occasional_work = "finding subspaces";
        result.occasional_steps = method.recipe.optim.galore.value_or(GaloreOptions()).update_proj_gap;
        result.occasional_seconds = timer.refresh();
      }
      if (round == 0 && method.recipe.lte) {
        result.occasional_work = "merging";
        result.occasional_steps = method.recipe.lte->merge_steps;
        timer.merge();
        result.occasional_seconds = timer.merge();
      }
      result.parameters = timer.parameters();
      for (std::size_t b = 0; b < options.batches.size(); ++b) {
        say(fmt::format("round {} of {}: {}, batch {}", round + 1, options.rounds, method.name,
                        options.batches[b]));
        const MethodCost cost = timer.cost(options.batches[b]);
        if (round == 0) result.costs.push_back(cost);
        std::ranges::copy(times(timer), std::back_inserter(seconds[m][b]));
      }
    }
  }
  for (std::size_t m = 0; m < report.results.size(); ++m) {
    MethodResult& result = report.results[m];
    for (std::size_t b = 0; b < result.costs.size(); ++b) {
      const auto [least, most] = std::ranges::minmax(seconds[m][b]);
      result.costs[b].seconds = median(seconds[m][b]);
      result.costs[b].least = least, result.costs[b].most = most;
    }
  }
  return report;
}

}  // namespace comera
