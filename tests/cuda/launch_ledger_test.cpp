// What a training step of every recipe launches on a GPU, held against docs/lab/launch-ledger.md.
// With COMERA_UPDATE_DOCS=1 in the environment the test writes the page.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/cuda/step_ledger.h"

namespace comera::test {
namespace {

StepCount step_count(const std::string& recipe, std::int64_t tokens,
                     const std::vector<std::string>& overrides = {}) {
  return count_of(step_of(LedgerRecipe{recipe, "", {}}.load(overrides), tokens, 128));
}

// ---- Every recipe

std::string numbers_of(const StepCount& count) {
  const OperationCount all = count.all();
  return fmt::format(" {:.0f} | {:.2f} | {:.2f} | {:.0f} |", all.launches, all.work.bytes * 1e-9,
                     count.milliseconds(), count.mib);
}

std::string lines_of(const LedgerRecipe& one) {
  std::string text;
  const Recipe recipe = one.load(), dense_recipe = one.load({"tensorized.enabled=false"});
  for (const std::int64_t length : lengths_of(recipe))
    for (const std::int64_t tokens : one.tokens) {
      const BothCounts own = counts_of(step_of(recipe, tokens, length));
      const StepCount dense = count_of(step_of(dense_recipe, tokens, length));
      text += fmt::format("| {} | {} | {} |{}{} {:.0f} | {:.2f} |\n", one.name, tokens, length,
                          numbers_of(own.together), numbers_of(dense), own.announced.all().launches,
                          own.announced.milliseconds());
    }
  return text;
}

std::string table_of_recipes() {
  std::string text =
      "| recipe | tokens | length | launches | GB | ms | MiB | dense: launches | GB | ms | MiB | announced: "
      "launches | ms |\n"
      "|---|---|---|---|---|---|---|---|---|---|---|---|---|\n";
  for (const LedgerRecipe& recipe : ledger_recipes()) text += lines_of(recipe);
  return text;
}

// ---- What the operations could take at best

std::string table_of_bounds() {
  struct Step {
    const char* recipe;
    std::int64_t tokens;
  };
  std::string text =
      "| recipe | tokens | ms | at the bounds | of that, bytes alone |\n|---|---|---|---|---|\n";
  for (const auto& [recipe, tokens] : {Step{"codebert_base", 16384},
                                       {"codebert_large", 16384},
                                       {"codebert_large_muon", 16384},
                                       {"six_encoder_mnli", 5120},
                                       {"six_encoder_mnli", 32768}}) {
    const StepCount count = step_count(recipe, tokens);
    text += fmt::format("| {} | {} | {:.2f} | {:.2f} | {:.2f} |\n", recipe, tokens, count.milliseconds(),
                        count.milliseconds(time_model::at_the_bounds),
                        count.all().work.bytes * 1e-9 * time_model::at_the_bounds.gigabyte);
  }
  return text;
}

// ---- Operations of a step

std::string operation_line(const std::string& name, std::int64_t calls, double launches, double gigabytes,
                           double milliseconds) {
  return fmt::format("| {} | {} | {:.0f} | {:.3f} | {:.3f} |\n", name, calls, launches, gigabytes,
                     milliseconds);
}

std::string table_of_operations(const StepCount& count) {
  std::string text = "| operation | calls | launches | GB | ms |\n|---|---|---|---|---|\n";
  for (const OperationCount& one : count.operations)
    text += operation_line(one.name, one.calls, one.launches, one.work.bytes * 1e-9, milliseconds(one));
  const OperationCount all = count.all();
  return text + operation_line("all", all.calls, all.launches, all.work.bytes * 1e-9, count.milliseconds());
}

std::string table_of_operations(const StepCount& some, const StepCount& many) {
  std::string text =
      "| operation | calls | launches, 5,120 | GB | ms | launches, 32,768 | GB | ms |\n"
      "|---|---|---|---|---|---|---|---|\n";
  const auto line = [&](const OperationCount& a, const OperationCount& b, double ms_a, double ms_b) {
    text +=
        fmt::format("| {} | {} | {:.0f} | {:.3f} | {:.3f} | {:.0f} | {:.3f} | {:.3f} |\n", a.name, a.calls,
                    a.launches, a.work.bytes * 1e-9, ms_a, b.launches, b.work.bytes * 1e-9, ms_b);
  };
  for (const OperationCount& one : some.operations) {
    const OperationCount other = many.find(one.name);
    line(one, other, milliseconds(one), milliseconds(other));
  }
  line(some.all(), many.all(), some.milliseconds(), many.milliseconds());
  return text + fmt::format("\nMemory of everything: {:.0f} and {:.0f} MiB.\n", some.mib, many.mib);
}

// ---- The model beside measurements: bench/results/2026-11-27-h200.md

std::string share(double model, double measured) {
  return fmt::format("{:+.0f} %", 100 * (model / measured - 1));
}

std::string measured_steps() {
  struct Measured {
    std::int64_t tokens;
    double own, dense;
  };
  std::string text =
      "| tokens | tensor trains: measured | model | | dense baseline: measured | model | |\n"
      "|---|---|---|---|---|---|---|\n";
  for (const auto& [tokens, own, dense] :
       {Measured{5120, 2.37, 4.97}, {16384, 4.50, 11.35}, {32768, 8.18, 20.40}}) {
    const double a = step_count("six_encoder_mnli", tokens).milliseconds(),
                 b = step_count("six_encoder_mnli", tokens, {"tensorized.enabled=false"}).milliseconds();
    text += fmt::format("| {} | {:.2f} | {:.2f} | {} | {:.2f} | {:.2f} | {} |\n", tokens, own, a,
                        share(a, own), dense, b, share(b, dense));
  }
  return text;
}

std::string measured_operations(const StepCount& count) {
  struct Measured {
    const char* name;
    int calls;
    double ms;  // between two events
  };
  constexpr Measured operations[] = {{"MatrixProduct", 85, 1.564},
                                     {"AttentionBackward", 6, 1.428},
                                     {"TTInnerBackward", 6, 1.290},
                                     {"WeightGradients", 7, 0.797},
                                     {"BiasDropoutResidualNormBackward", 12, 0.723},
                                     {"BiasDropoutResidualNormForward", 12, 0.606},
                                     {"AttentionForward", 6, 0.596},
                                     {"TTInnerForward", 6, 0.538},
                                     {"TTFactorsForward", 2, 0.137},
                                     {"TTFactorsBackward", 2, 0.118},
                                     {"TTMRowsBackward", 1, 0.097},
                                     {"BiasActivationForward", 8, 0.091},
                                     {"SegmentSum", 1, 0.081},
                                     {"TableGradient", 2, 0.074},
                                     {"Dropout", 4, 0.066},
                                     {"LayerNormBackward", 1, 0.063},
                                     {"TTMRowsForward", 1, 0.053},
                                     {"GradientNorm", 1, 0.045}};
  constexpr double of_events = 2.8e-3;  // the profile's calls take so much longer than the step's
  std::string text = "| operation | measured, ms | model, ms | |\n|---|---|---|---|\n";
  for (const Measured& one : operations) {
    double model = milliseconds(count.find(one.name));
    if (one.name == std::string("MatrixProduct")) model += milliseconds(count.find("BiasedProduct"));
    const double measured = one.ms - one.calls * of_events;
    text += fmt::format("| {} | {:.2f} | {:.2f} | {} |\n", one.name, measured, model, share(model, measured));
  }
  return text;
}

// ---- The page

constexpr const char* introduction =
    R"(# Launches of a training step on a GPU
This page counts what each operation of one training step launches on a GPU, and the bytes that it moves at least.

Launches are kernels, calls of the matrix library and copies. cuBLASLt's internal launches are not counted. A step is
one micro-batch and the update, in bfloat16, without graphs and without rank adaptation. The milliseconds are those of a
[model](#the-model-of-the-time) of an H200: an estimate, but where a measurement is named.

A test counts on the emulated backend and fails when the counts change.
`COMERA_UPDATE_DOCS=1 ctest --preset release -R LaunchLedger` writes this page.

## Every recipe
Micro-batches have the given tokens in sequences of the given length; quickstart has a vocabulary of 8,192. `glue` has
the model of `glue_small`, `function_pairs` that of `codebert_small`, both with three classes. *dense*: the same with
`tensorized.enabled=false`. *announced*: with gradients that are completed as early as possible, as several processes
want them; their sums over processes are not counted. MiB: memory of everything. Recipes of click models are not listed:
the measurement of steps takes encoders only.

)";

constexpr const char* about_bounds =
    R"(
## At the bounds
What the same operations would take if launches took no time and each operation reached its bound, by the model below:
0.24 ms for a gigabyte, which copies reach, 790 TFLOP/s in cuBLASLt and the 490 that mma.sync reaches in own kernels, or
all of the machine's instructions in attention and in the inner part of feed-forward networks. Sequences of 128. To be
quicker than this a step needs fewer bytes, other instructions of the tensor cores, or operations that overlap.

)";

constexpr const char* about_the_model =
    R"(
## The model of the time
An operation takes {:.1f} us for each launch, and the longest of three times:
- its bytes: {:.2f} ms for a gigabyte;
- its products: {:.0f} TFLOP/s in cuBLASLt and 490 in own kernels, both in bfloat16; 60 in float32 without tensor cores,
  102 for Muon's products of split float32;
- its instructions and special functions, where they are counted: in attention, the feed-forward network's inner part
  and the softmax over a vocabulary.

Attention reaches {:.0f} % of its bound and the inner part {:.0f} %, by the profile of 32,768 tokens. The times of a launch
and of a gigabyte and the rate of cuBLASLt are fitted to six [measured](../../bench/results/2026-11-27-h200.md) steps of
the six-encoder:

)";

constexpr const char* about_operations =
    R"(
When that was measured, attention of the last block had all queries; now it has one of 128, which takes a sixth of
attention away. The fit counts attention as it was, and is within 3 % of all six; the tables count it as it is. So
they do with two more changes: products add their bias themselves (BiasedProduct, here among the MatrixProduct), which
took 7 of the 8 BiasActivationForward, and more of the dense baseline's; and the pooler contracts its cores with all
others. Operation by operation, with 32,768 tokens; the profile is less 2.8 us for the events around each call:

)";

constexpr const char* about_its_limits =
    R"(
Weight gradients and the small products of cores take longer than their bytes, and elementwise operations less: one rate
serves all. Work is summed over all calls of an operation, so one whose calls wait for memory and for tensor cores in
turn takes longer than the model says. No masked-language head, no Muon and no model but the six-encoder has been
measured: elsewhere the milliseconds are an extrapolation, which tells where time goes.

)";

std::string page() {
  const StepCount some = step_count("six_encoder_mnli", 5120), many = step_count("six_encoder_mnli", 32768);
  return introduction + table_of_recipes() + about_bounds + table_of_bounds() +
         fmt::format(fmt::runtime(about_the_model), 1e3 * time_model::of_a_launch, time_model::of_a_gigabyte,
                     1e-12 * time_model::library_flops, 100 * time_model::attention_reaches,
                     100 * time_model::inner_reaches) +
         measured_steps() + about_operations + measured_operations(many) + about_its_limits +
         "## six_encoder_mnli, operation by operation\n5,120 and 32,768 tokens in sequences of 128.\n\n" +
         table_of_operations(some, many) +
         "\n## codebert_base, operation by operation\n16,384 tokens in sequences of 128.\n\n" +
         table_of_operations(step_count("codebert_base", 16384)) +
         "\n## codebert_large, operation by operation\n16,384 tokens in sequences of 128.\n\n" +
         table_of_operations(step_count("codebert_large", 16384));
}

TEST(EmulatedLaunchLedger, IsThatOfTheCode) {
  const std::string file = COMERA_SOURCE_DIR "/docs/lab/launch-ledger.md", expected = page();
  if (std::getenv("COMERA_UPDATE_DOCS") != nullptr) std::ofstream(file) << expected;
  std::ostringstream found;
  found << std::ifstream(file).rdbuf();
  EXPECT_EQ(found.str(), expected) << file << " is out of date; COMERA_UPDATE_DOCS=1 writes it";
}

}  // namespace
}  // namespace comera::test
