#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tensorized/decomposition/shapes.h"

namespace comera {

// Benchmarks lookups in an embedding table, forward and backward, in every way
// (docs/developer/architecture.md): a dense table, and a tensor-train matrix token by token, by distinct ids,
// and through its left and right factors.
struct LookupBenchmarkOptions {
  std::int64_t rows = 0, width = 0;
  TTMShape shape;
  std::vector<std::int64_t> tokens = {10000, 20000, 40000, 100000};
  // The ids of a text, taken in order by the batches; empty: drawn by Zipf's law.
  std::vector<std::int32_t> text = {};
  double exponent = 1.05;
  int repeats = 5;
  std::string device = "auto";  // as in find_processor()
};

struct LookupResult {
  std::int64_t tokens = 0, distinct = 0;
  std::string way;                         // dense, naive, unique, factors
  double forward_ms = 0, backward_ms = 0;  // medians
  std::int64_t parameters = 0;
  std::size_t forward_bytes = 0,
              bytes = 0;  // of memory besides parameters and gradients: of the forward pass, of both
};

// A forward pass produces a row for each token, a backward pass adds to the gradient of the parameters. Error
// if the text has an id outside the table, or too few tokens.
std::vector<LookupResult> benchmark_lookup(const LookupBenchmarkOptions& options);
std::string lookup_text(const LookupBenchmarkOptions& options, const std::vector<LookupResult>& results);

}  // namespace comera
