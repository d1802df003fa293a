// Whether `comera bench precision` finds the errors that rounded operands leave.
#include "measurements/precision/precision_benchmark.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/cuda/test_device.h"
#include "tests/training/training_fixture.h"

namespace comera::test {
namespace {

using testing::HasSubstr;

// By the precision's name, of the whole matrix or of the train.
std::map<std::string, PrecisionResult> results_of(const PrecisionReport& report, bool train) {
  std::map<std::string, PrecisionResult> results;
  for (const PrecisionResult& result : report.results)
    if ((result.size.rank > 0) == train) results[result.precision] = result;
  return results;
}

const PrecisionBenchmarkOptions small{.tokens = {203},
                                      .inputs = {96},
                                      .outputs = {160},
                                      .ranks = {30},
                                      .repeats = 1,
                                      .device = "cpu",
                                      .print = {}};

// E4M3 rounds an operand by 2.7 % on average, E5M2, for gradients, by 5.3 %; they add up as squares do.
void expect_rounded_operands(const PrecisionReport& report, const char* precision) {
  const PrecisionResult matrix = results_of(report, false).at(precision);
  EXPECT_NEAR(matrix.y_error, 0.038, 0.004);
  EXPECT_NEAR(matrix.dx_error, 0.059, 0.006);
  ASSERT_EQ(matrix.weight_errors.size(), 1u);
  EXPECT_NEAR(matrix.weight_errors[0], 0.059, 0.006);
  const PrecisionResult train = results_of(report, true).at(precision);
  EXPECT_NEAR(train.y_error, 0.053, 0.006);
  EXPECT_NEAR(train.dx_error, 0.083, 0.01);  // dxa is rounded to E5M2 again
  ASSERT_EQ(train.weight_errors.size(), 2u);
  EXPECT_NEAR(train.weight_errors[0], 0.083, 0.01);
  EXPECT_NEAR(train.weight_errors[1], 0.07, 0.01);
}

void expect_below(const PrecisionResult& result, double error) {
  EXPECT_LT(result.y_error, error) << result.precision;
  EXPECT_LT(result.dx_error, error) << result.precision;
  for (const double weight : result.weight_errors) EXPECT_LT(weight, error) << result.precision;
}

TEST(PrecisionBenchmark, ErrorsAreThoseOfTheOperands) {
  PrecisionBenchmarkOptions options = small;
  std::string table;
  options.print = [&](const std::string& text) { table += text; };
  const PrecisionReport report = benchmark_precision(options);
  EXPECT_THAT(table, HasSubstr("without tensor cores of 8 bits"));
  for (const bool train : {false, true}) expect_below(results_of(report, train).at("fp32"), 2e-6);
  expect_rounded_operands(report, "fp8 current");
  expect_rounded_operands(report, "fp8 delayed");
  for (const PrecisionResult& result : report.results) {
    EXPECT_GT(result.forward_ms, 0);
    EXPECT_GT(result.backward_ms, 0);
    EXPECT_GT(result.against_fp32, 0);
    EXPECT_EQ(result.emulated, result.precision.starts_with("fp8"));
  }
}

// As on a GPU: narrow activations, TF32, and 8-bit operands made of narrow numbers.
TEST(PrecisionBenchmark, EmulatedKernelsHaveTheErrorsOfTheirTypes) {
  const TestDevice device = emulated_device(), rounded = emulated_device(true);
  const std::vector<Precision> precisions = {
      {.name = "fp32", .processor = device.with_graphs},
      {.name = "tf32", .processor = rounded.with_graphs},
      {.name = "bf16", .processor = device.with_graphs, .type = DType::bfloat16},
      {.name = "fp8 current",
       .processor = device.with_graphs,
       .type = DType::bfloat16,
       .float8 = true,
       .emulated = true},
      {.name = "fp8 delayed",
       .processor = device.with_graphs,
       .type = DType::bfloat16,
       .float8 = true,
       .delayed = true,
       .emulated = true}};
  const PrecisionReport report = benchmark_precision(small, precisions);
  EXPECT_TRUE(report.left_out.empty());
  for (const bool train : {false, true}) {
    const auto results = results_of(report, train);
    expect_below(results.at("fp32"), 2e-6);
    expect_below(results.at("tf32"), 1e-3);
    EXPECT_GT(results.at("tf32").y_error, 1e-5);
    expect_below(results.at("bf16"), 1e-2);
    EXPECT_GT(results.at("bf16").y_error, 1e-3);
    EXPECT_GT(results.at("fp8 current").against_bf16, 0);
  }
  expect_rounded_operands(report, "fp8 current");
  expect_rounded_operands(report, "fp8 delayed");
}

TEST(PrecisionBenchmark, TheProgramWritesTableAndNumbers) {
  const std::filesystem::path file = std::filesystem::path(testing::TempDir()) / "comera-precision.json";
  const ProgramResult result =
      run_program({"bench", "precision", "--tokens", "40", "--inputs", "32", "--outputs", "48", "--rank", "5",
                   "--rank", "20", "--repeats", "1", "--device", "cpu", "--json", file.string()});
  ASSERT_EQ(result.code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("matrix product, 40 tokens, 32 x 48"));
  EXPECT_THAT(result.output, HasSubstr("tensor train of rank 20, 40 tokens, 32 x 48"));
  std::ifstream stream(file);
  const auto numbers = nlohmann::json::parse(stream);
  ASSERT_EQ(numbers.size(), 12u);  // fp32, bf16 and two of 8 bits, of the matrix and at two ranks
  EXPECT_EQ(numbers[0]["precision"], "fp32");
  EXPECT_FALSE(numbers[0].contains("rank"));
  EXPECT_EQ(numbers[11]["rank"], 20);
  EXPECT_EQ(numbers[11]["weight_errors"].size(), 2u);
  EXPECT_GT(numbers[11]["y_error"], 0.02);
  std::filesystem::remove(file);
}

TEST(PrecisionBenchmark, WhatCannotBeMeasuredIsOneSentence) {
  const auto refuses = [](std::vector<std::string> options, const char* sentence) {
    options.insert(options.begin(), {"bench", "precision"});
    const ProgramResult result = run_program(options);
    EXPECT_NE(result.code, 0);
    EXPECT_THAT(result.output, HasSubstr(sentence));
    EXPECT_EQ(std::ranges::count(result.output, '\n'), 1) << result.output;
  };
  refuses({"--inputs", "100"}, "--inputs 100 is not a multiple of 16");
  refuses({"--outputs", "48", "--outputs", "7"}, "--outputs 7 is not a multiple of 16");
  refuses({"--inputs", "32", "--rank", "33"}, "--rank 33 is more than the 32 inputs or outputs");
  refuses({"--quick", "--tokens", "5"}, "--quick");
  refuses({"--tokens", "0"}, "--tokens");
  refuses({"--device", "cuda:99", "--quick"}, "cuda:99");
  refuses({"--json", "/proc/nowhere/all.json"}, "/proc/nowhere");
}

}  // namespace
}  // namespace comera::test
