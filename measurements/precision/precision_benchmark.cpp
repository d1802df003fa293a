#include "measurements/precision/precision_benchmark.h"

#include <nlohmann/json.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "kernels/backends/backends.h"
#include "kernels/backends/processors.h"
#include "measurements/stepper.h"
#include "reports/text/text_table.h"
#include "training/logging/json.h"

namespace comera {

namespace {

constexpr std::int64_t sampled = 64;       // tokens, inputs and outputs to compare
constexpr int history_steps = 3;           // for delayed scales: gradients of a tensor train come one by one
constexpr double shortest_seconds = 0.01;  // of a timed sequence of calls

void check_multiple(const char* option, const std::vector<std::int64_t>& sizes) {
  for (const std::int64_t size : sizes)
    if (size <= 0 || size % float8_multiple != 0)
      throw UsageError(fmt::format("{} {} is not a multiple of {}, which 8-bit products need; use {}", option,
                                   size, float8_multiple, std::max(float8_padded(size), float8_multiple)));
}

void check_options(const PrecisionBenchmarkOptions& options) {
  check_multiple("--inputs", options.inputs);
  check_multiple("--outputs", options.outputs);
  for (const std::int64_t rank : options.ranks)
    for (const std::vector<std::int64_t>* sizes : {&options.inputs, &options.outputs})
      for (const std::int64_t size : *sizes)
        if (rank > size)
          throw UsageError(
              fmt::format("--rank {} is more than the {} inputs or outputs allow; lower it", rank, size));
}

std::vector<LinearSize> sizes_of(const PrecisionBenchmarkOptions& options) {
  std::vector<LinearSize> sizes;
  for (const std::int64_t tokens : options.tokens)
    for (const std::int64_t inputs : options.inputs)
      for (const std::int64_t outputs : options.outputs) {
        sizes.push_back({tokens, inputs, outputs, 0});
        for (const std::int64_t rank : options.ranks) sizes.push_back({tokens, inputs, outputs, rank});
      }
  return sizes;
}

// Seconds per call, for several consecutive calls.
template <class Call>
double seconds_of(PrecisionLinear& linear, int times, const Call& call) {
  linear.wait();
  const auto start = Clock::now();
  for (int i = 0; i < times; ++i) call();
  linear.wait();
  return seconds_since(start) / times;
}

// A linear layer in one precision, and its times.
struct Measured {
  std::unique_ptr<PrecisionLinear> linear;
  int forward_times = 1, backward_times = 1;  // calls per measurement
  std::vector<double> forward, backward, both;

  void warm_up() {
    const auto times = [](double seconds) {
      return std::clamp(static_cast<int>(std::ceil(shortest_seconds / std::max(seconds, 1e-9))), 1, 100);
    };
    forward_times = times(seconds_of(*linear, 1, [&] { linear->forward(); }));
    backward_times = times(seconds_of(*linear, 1, [&] { linear->backward(); }));
  }
  void time() {
    forward.push_back(seconds_of(*linear, forward_times, [&] { linear->forward(); }));
    backward.push_back(seconds_of(*linear, backward_times, [&] { linear->backward(); }));
    both.push_back(forward.back() + backward.back());
  }
};

// One size in all precisions, measured in turn.
class SizeBenchmark {
 public:
  SizeBenchmark(const LinearSize& size, const std::vector<Precision>& precisions,
                std::vector<std::string>& left_out)
      : data_(size) {
    for (const Precision& precision : precisions) add(precision, left_out);
  }

  std::vector<PrecisionResult> run(int repeats) {
    learn_scales();
    write(1);
    const LinearSample sample(data_.size, sampled);
    const LinearValues exact = exact_values(data_, sample);
    std::vector<PrecisionResult> results;
    for (Measured& measured : measured_) results.push_back(errors(measured, exact, sample));
    for (Measured& measured : measured_) measured.warm_up();
    for (int repeat = 0; repeat < repeats; ++repeat)
      for (Measured& measured : measured_) measured.time();
    for (std::size_t i = 0; i < results.size(); ++i) add_times(results[i], measured_[i]);
    return results;
  }

 private:
  void add(const Precision& precision, std::vector<std::string>& left_out) {
    const auto key = std::pair{&precision.processor.allocator, precision.type};
    try {
      if (!activations_.contains(key))
        activations_.try_emplace(key, data_.size, precision.type, precision.processor.allocator);
      auto linear = make_linear(data_.size, precision, activations_.at(key));
      linear->forward();
      linear->backward();
      linear->wait();
      measured_.push_back({.linear = std::move(linear), .forward = {}, .backward = {}, .both = {}});
    } catch (const OutOfMemory&) {
      throw;
    } catch (const Error& error) {  // from a GPU without support; the CPU supports all
      if (precision.processor.allocator.device().kind == DeviceKind::cpu) throw;
      const std::string reason = fmt::format("{}: {}", precision.name, error.what());
      if (std::ranges::find(left_out, reason) == left_out.end()) left_out.push_back(reason);
    }
  }

  void write(std::uint64_t seed) {
    data_.draw(seed);
    for (Measured& measured : measured_) {
      measured.linear->write(data_);
      const Precision& precision = measured.linear->precision();
      activations_.at({&precision.processor.allocator, precision.type}).write(data_, precision.processor);
    }
  }

  // Other values of the same magnitude come first.
  void learn_scales() {
    const bool any = std::ranges::any_of(
        measured_, [](const Measured& measured) { return measured.linear->precision().delayed; });
    if (!any) return;
    write(2);
    for (Measured& measured : measured_)
      for (int step = 0; step < history_steps && measured.linear->precision().delayed; ++step) {
        measured.linear->forward();
        measured.linear->backward();
        measured.linear->next_scales();
      }
  }

  PrecisionResult errors(const Measured& measured, const LinearValues& exact,
                         const LinearSample& sample) const {
    const LinearValues got = measured.linear->values(sample);
    PrecisionResult result{.size = data_.size,
                           .precision = measured.linear->precision().name,
                           .emulated = measured.linear->precision().emulated,
                           .y_error = relative_norm(got.y, exact.y),
                           .dx_error = relative_norm(got.dx, exact.dx),
                           .weight_errors = {}};
    for (std::size_t i = 0; i < exact.weights.size(); ++i)
      result.weight_errors.push_back(relative_norm(got.weights[i], exact.weights[i]));
    return result;
  }

  void add_times(PrecisionResult& result, const Measured& measured) const {
    result.forward_ms = median(measured.forward) * 1e3;
    result.backward_ms = median(measured.backward) * 1e3;
    for (const Measured& other : measured_) {
      const std::string& name = other.linear->precision().name;
      if (name == "fp32") result.against_fp32 = median_ratio(other.both, measured.both);
      if (name == "bf16") result.against_bf16 = median_ratio(other.both, measured.both);
    }
  }

  LinearData data_;
  std::map<std::pair<Allocator*, DType>, LinearActivations> activations_;
  std::vector<Measured> measured_;
};

std::string title(const LinearSize& size) {
  const std::string of = fmt::format("{} tokens, {} x {}", size.tokens, size.inputs, size.outputs);
  return size.rank == 0 ? fmt::format("matrix product, {}", of)
                        : fmt::format("tensor train of rank {}, {}", size.rank, of);
}

std::string percent(double error) { return fmt::format("{:.2g} %", 100 * error); }

std::vector<std::string> row(const PrecisionResult& result) {
  const auto ratio = [](double value) { return value > 0 ? fmt::format("{:.2f}", value) : "-"; };
  std::vector<std::string> cells = {fmt::format("{}{}", result.precision, result.emulated ? " *" : ""),
                                    percent(result.y_error), percent(result.dx_error)};
  for (const double error : result.weight_errors) cells.push_back(percent(error));
  cells.insert(cells.end(),
               {fmt::format("{:.3f}", result.forward_ms), fmt::format("{:.3f}", result.backward_ms),
                ratio(result.against_fp32), ratio(result.against_bf16)});
  return cells;
}

std::string heading(const Processor& processor, int repeats) {
  const bool gpu = processor.allocator.device().kind == DeviceKind::cuda;
  const std::string where =
      gpu ? std::string(processor.backend.name())
          : fmt::format("cpu, {} threads, instruction set {}", thread_count(), instruction_set());
  return fmt::format(
      "{}\n"
      "errors: relative Frobenius norms against double precision, of y and dx at {} tokens, of gradients of "
      "weights at {} inputs and outputs\n"
      "times: medians of {} turns, conversions to 8 bits included; x fp32: how many times faster than fp32, "
      "forward and backward together\n",
      where, sampled, sampled, repeats);
}

std::string table(const LinearSize& size, const std::vector<PrecisionResult>& results) {
  std::vector<std::string> titles = {"", "y", "dx"};
  if (size.rank == 0)
    titles.emplace_back("dW");
  else
    titles.insert(titles.end(), {"dA", "dB"});
  titles.insert(titles.end(), {"forward ms", "backward ms", "x fp32", "x bf16"});
  TextTable table(std::move(titles));
  table.align_right(1);
  for (const PrecisionResult& result : results) table.add(row(result));
  return fmt::format("\n{}\n{}", title(size), table.text());
}

std::string notes(const PrecisionReport& report) {
  std::string text;
  if (std::ranges::any_of(report.results, &PrecisionResult::emulated))
    text +=
        "\n* without tensor cores of 8 bits, multiplied as bf16, which holds 8-bit numbers exactly: errors "
        "are "
        "those of the rounded operands, times are not those of tensor cores\n";
  for (const std::string& reason : report.left_out) text += fmt::format("left out: {}\n", reason);
  return text;
}

Json json_of(const PrecisionResult& result) {
  Json line = {
      {"tokens", result.size.tokens}, {"inputs", result.size.inputs}, {"outputs", result.size.outputs}};
  if (result.size.rank > 0) line["rank"] = result.size.rank;
  line["precision"] = result.precision;
  line["emulated"] = result.emulated;
  line["y_error"] = result.y_error;
  line["dx_error"] = result.dx_error;
  line["weight_errors"] = result.weight_errors;
  line["forward_ms"] = result.forward_ms;
  line["backward_ms"] = result.backward_ms;
  if (result.against_fp32 > 0) line["times_faster_than_fp32"] = result.against_fp32;
  if (result.against_bf16 > 0) line["times_faster_than_bf16"] = result.against_bf16;
  return line;
}

}  // namespace

std::vector<Precision> precisions_of(const std::string& device) {
  const Processor plain = find_processor(device, DType::float32);
  const bool gpu = plain.allocator.device().kind == DeviceKind::cuda;
  std::vector<Precision> precisions = {{.name = "fp32", .processor = plain}};
  if (gpu)
    precisions.push_back(
        {.name = "tf32", .processor = find_processor(device, DType::float32, OperandKind::tf32)});
  precisions.push_back({.name = "bf16", .processor = plain, .type = DType::bfloat16});
  for (const bool delayed : {false, true})
    precisions.push_back({.name = delayed ? "fp8 delayed" : "fp8 current",
                          .processor = plain,
                          .type = DType::bfloat16,
                          .float8 = true,
                          .delayed = delayed,
                          .emulated = !gpu});
  return precisions;
}

PrecisionReport benchmark_precision(const PrecisionBenchmarkOptions& options) {
  check_options(options);
  return benchmark_precision(options, precisions_of(options.device));
}

PrecisionReport benchmark_precision(const PrecisionBenchmarkOptions& options,
                                    const std::vector<Precision>& precisions) {
  check_options(options);
  const auto print = [&](const std::string& text) {
    if (options.print) options.print(text);
  };
  print(heading(precisions.front().processor, options.repeats));
  PrecisionReport report;
  for (const LinearSize& size : sizes_of(options)) {
    const auto results = SizeBenchmark(size, precisions, report.left_out).run(options.repeats);
    print(table(size, results));
    report.results.insert(report.results.end(), results.begin(), results.end());
  }
  print(notes(report));
  return report;
}

std::string precision_json(const PrecisionReport& report) {
  std::string text;
  for (const PrecisionResult& result : report.results)
    text += fmt::format("{}{}", text.empty() ? "[" : ",\n ", json_text(json_of(result)));
  return text.empty() ? "[]\n" : text + "]\n";
}

}  // namespace comera
