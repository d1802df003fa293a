#include "tests/cuda/time_model.h"

#include <algorithm>
#include <string_view>

namespace comera::test {

namespace {

constexpr double per_millisecond = 1e-3;  // of a rate per second

// ---- The machine

// Products in bfloat16 of kernels with mma.sync, which reaches 62 % of a Hopper's
// tensor cores: of the 790e12 that the library has at best.
constexpr double own_flops = 490e12 * per_millisecond;
// Products in float32 without tensor cores: 67 is the data sheet's.
constexpr double float32_flops = 60e12 * per_millisecond;
// Muon splits float32 into two TF32 numbers and computes three products: 495e12 by the data sheet, 62 % of
// it.
constexpr double split_flops = 495e12 * 0.62 / 3 * per_millisecond;
// Instructions of all threads: 132 multiprocessors, 128 a cycle, 1.755 GHz; and of these special functions
// (powers of two, reciprocals).
constexpr double instructions = 132 * 128 * 1.755e9 * per_millisecond, special_functions = instructions / 8;

// ---- Kernels

// A fused kernel with an inner tensor between its products. `instructions` and `special_functions` are those
// of an element with 32 columns, counted in the machine code of bfloat16 (sm_90a); the work counts some of
// its products, and it executes some again.
struct Fused {
  const char* name;
  double instructions, special_functions, counted_products, executed_products;
  double time_model::Rates::*reaches;
};
constexpr Fused fused[] = {
    {"AttentionForward", 13.9, 1, 2, 2, &time_model::Rates::attention},
    {"AttentionBackward", 17.0 + 18.0, 2, 5, 7, &time_model::Rates::attention},
    {"TTInnerForward", 15.1, 2, 2, 2, &time_model::Rates::inner},
    {"TTInnerBackward", 17.0 + 20.1, 4, 5, 7, &time_model::Rates::inner},
};
// Instructions for a logit, counted in the machine code by eights: the softmax, the pass that writes, the
// bias's gradient.
constexpr double of_a_logit = 26.4 + 23.4 + 3.4;

// Columns of both operands are padded to one of these; attention has no kernel of 112.
double padded(double columns, bool attention) {
  return columns <= 32 ? 32 : columns <= 64 ? 64 : columns <= 112 && !attention ? 112 : 128;
}

double milliseconds_of(const Fused& kernel, const Work& work, const time_model::Rates& rates) {
  if (work.inner == 0) return 0;
  const double columns = work.flops / (2 * kernel.counted_products * work.inner);
  const bool attention = std::string_view(kernel.name).starts_with("Attention");
  const double flops = 2 * kernel.executed_products * padded(columns, attention) * work.inner;
  return std::max({flops / own_flops, kernel.instructions * work.inner / instructions,
                   kernel.special_functions * work.inner / special_functions}) /
         rates.*kernel.reaches;
}

double milliseconds_of_products(const OperationCount& count, const time_model::Rates& rates) {
  const Work& work = count.work;
  for (const Fused& kernel : fused)
    if (count.name == kernel.name && work.wide_flops == 0) return milliseconds_of(kernel, work, rates);
  if (count.name == "Muon") return work.flops / split_flops;
  const double narrow = work.flops - work.wide_flops;
  return narrow / ((count.name == "MatrixProduct" || count.name == "BiasedProduct")
                       ? rates.library * per_millisecond
                       : own_flops) +
         work.wide_flops / float32_flops;
}

double milliseconds_of_instructions(const OperationCount& count) {
  if (count.name != "SoftmaxCrossEntropy") return 0;
  const double logits = count.work.bytes / 4;  // read and written in bfloat16
  return of_a_logit * logits / instructions;
}

}  // namespace

double milliseconds(const OperationCount& count, const time_model::Rates& rates) {
  return count.launches * rates.launch +
         std::max({count.work.bytes * 1e-9 * rates.gigabyte, milliseconds_of_products(count, rates),
                   milliseconds_of_instructions(count)});
}

}  // namespace comera::test
