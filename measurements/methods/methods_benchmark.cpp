#include "measurements/methods/methods_benchmark.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <numeric>

#include "kernels/backends/backends.h"
#include "kernels/backends/processors.h"
#include "measurements/stepper.h"
#include "recipes/encoder_config.h"
#include "training/run/phase.h"

namespace comera {

namespace {

StepBenchmarkOptions step_options(const MethodsBenchmarkOptions& options, const Method& method,
                                  std::int64_t batch) {
  StepBenchmarkOptions step;
  step.config = encoder_config(method.recipe, options.vocabulary);
  step.optimizer = method.recipe.optim;
  step.tokens = batch * options.length;
  step.length = options.length;
  return step;
}

}  // namespace

std::size_t MethodCost::total_bytes() const { return std::reduce(bytes.begin(), bytes.end()); }

double MethodResult::mean_seconds(const MethodCost& cost) const {
  return cost.seconds + occasional.seconds_per_step();
}

MethodsReport benchmark_methods(const MethodsBenchmarkOptions& options) {
  COMERA_CHECK(!options.methods.empty() && !options.batches.empty(), "there is nothing to measure");
  const Recipe& recipe = options.methods.front().recipe;
  const EncoderConfig config = encoder_config(recipe, options.vocabulary);
  Processor processor = find_processor(options.device, config.compute, recipe.precision.operands());
  processor.graphs = true;
  const auto log_line = [&](const std::string& line) {
    if (options.log_line) options.log_line(line);
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
    report.results.push_back({.name = method.name, .detail = method.detail, .occasional = {}, .costs = {}});
    seconds[report.results.size() - 1].resize(options.batches.size());
    for (const std::int64_t batch : options.batches) {
      check_lengths(step_options(options, method, batch));
      const auto& lte = method.recipe.lte;
      if (lte && batch * options.length % lte->num_heads != 0)
        throw UsageError(
            fmt::format("a step of {} sequences of {} tokens cannot be divided among LTE's {} heads; change "
                        "--num-heads, or omit the method",
                        batch, options.length, lte->num_heads));
    }
  }
  for (int round = 0; round < options.rounds; ++round) {
    for (std::size_t m = 0; m < options.methods.size(); ++m) {
      const Method& method = options.methods[m];
      MethodResult& result = report.results[m];
      Stepper stepper(step_options(options, method, options.batches.front()), processor);
      stepper.step();
      if (round == 0) result.occasional = occasional_work(stepper, method.recipe);
      result.parameters = stepper.parameters().count();
      for (std::size_t b = 0; b < options.batches.size(); ++b) {
        log_line(fmt::format("round {} of {}: {}, batch {}", round + 1, options.rounds, method.name,
                             options.batches[b]));
        stepper.set_batch(step_options(options, method, options.batches[b]));
        if (round == 0) result.costs.push_back({.batch = options.batches[b], .bytes = stepper.memory()});
        std::ranges::copy(step_times(stepper), std::back_inserter(seconds[m][b]));
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
