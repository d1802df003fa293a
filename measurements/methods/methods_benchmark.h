#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kernels/core/tensors/memory.h"
#include "measurements/methods/methods.h"
#include "measurements/step_benchmark.h"

namespace comera {

struct MethodsBenchmarkOptions {
  std::vector<Method> methods;
  std::vector<std::int64_t> batches = {1, 32, 64, 128};  // sequences per step
  std::int64_t length = 128;                             // tokens per sequence
  std::int64_t vocabulary = 0;                           // if the recipe leaves it to the tokenizer
  int rounds = 3;                                        // of all methods in turn, for each batch
  std::string device = "auto";
  std::function<void(const std::string&)> log_line = {};  // reports the progress, a line each
};

// A method's step at one batch. Seconds are for whole steps, without work done only in some of them
// (MethodResult::occasional).
struct MethodCost {
  std::int64_t batch = 0;
  double seconds = 0, least = 0, most = 0;  // median, and the range
  MemoryByKind bytes{};

  std::size_t total_bytes() const;
};

struct MethodResult {
  std::string name, detail;
  std::int64_t parameters = 0;  // of the model
  OccasionalWork occasional;
  std::vector<MethodCost> costs;

  // Seconds of a step of the batch, including its share of the occasional work.
  double mean_seconds(const MethodCost& cost) const;
};

struct MethodsReport {
  std::string model, machine;
  std::int64_t length = 0;
  std::vector<MethodResult> results;
};

// Times whole optimizer steps of all methods in turn, and counts their memory by kind. Throws UsageError for
// what the model or the device does not support.
MethodsReport benchmark_methods(const MethodsBenchmarkOptions& options);

std::string methods_text(const MethodsReport& report);
std::string methods_json(const MethodsReport& report);
std::string methods_svg(const MethodsReport& report);

}  // namespace comera
