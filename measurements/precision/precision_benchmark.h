#pragma once

#include <functional>
#include <string>
#include <vector>

#include "measurements/precision/precision_linear.h"

namespace comera {

// The shapes in CoMERA's figure of products, and of a tensor train with its ranks.
struct PrecisionBenchmarkOptions {
  std::vector<std::int64_t> tokens = {10000, 20000, 40000};
  std::vector<std::int64_t> inputs = {1024}, outputs = {1024, 4096};
  std::vector<std::int64_t> ranks = {30};
  int repeats = 5;
  std::string device = "auto";  // as in find_processor()
  // Gets the table piece by piece as it becomes available: large sizes take minutes.
  std::function<void(const std::string&)> print = {};
};

// A linear layer of one size in one precision.
struct PrecisionResult {
  LinearSize size;
  std::string precision;
  bool emulated = false;
  // Relative Frobenius norms of the errors, for weights of W or of A and B.
  double y_error = 0, dx_error = 0;
  std::vector<double> weight_errors;
  // Medians, in milliseconds, and the ratio of the times of fp32 and bf16 to this one: medians of pairs; 0:
  // not measured.
  double forward_ms = 0, backward_ms = 0;
  double against_fp32 = 0, against_bf16 = 0;
};

struct PrecisionReport {
  std::vector<PrecisionResult> results;
  std::vector<std::string> left_out;  // unsupported precisions, with reasons
};

// The precisions that the device supports among fp32, TF32, bf16 and fp8 with current and with delayed
// scales.
std::vector<Precision> precisions_of(const std::string& device);

// All sizes, each as a dense matrix and at each rank. UsageError if a size is not a multiple of 16, which
// 8-bit operands need.
PrecisionReport benchmark_precision(const PrecisionBenchmarkOptions& options);
// The same with given precisions, the first of which is fp32. Precisions that a device rejects are left out.
PrecisionReport benchmark_precision(const PrecisionBenchmarkOptions& options,
                                    const std::vector<Precision>& precisions);

std::string precision_json(const PrecisionReport& report);

}  // namespace comera
