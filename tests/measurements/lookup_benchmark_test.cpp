#include "measurements/lookup_benchmark.h"

#include <gmock/gmock.h>

#include "kernels/core/check.h"

namespace comera::test {
namespace {

LookupBenchmarkOptions small_lookup() {
  return {.rows = 23,
          .width = 8,
          .shape = {.row_modes = {4, 6}, .column_modes = {2, 4}, .ranks = {5}},
          .tokens = {7, 12},
          .repeats = 1,
          .device = "cpu"};
}

TEST(LookupBenchmark, MeasuresEveryWayForEveryBatch) {
  LookupBenchmarkOptions options = small_lookup();
  options.text = {3, 3, 22, 0, 3, 7, 0, 1, 2, 4, 5, 6, 8};
  const std::vector<LookupResult> results = benchmark_lookup(options);
  ASSERT_EQ(results.size(), 8U);
  for (std::size_t i = 0; i < results.size(); ++i) {
    const LookupResult& result = results[i];
    EXPECT_EQ(result.tokens, i < 4 ? 7 : 12);
    EXPECT_EQ(result.distinct, i < 4 ? 4 : 9);
    EXPECT_GT(result.forward_ms, 0);
    EXPECT_GT(result.backward_ms, 0);
    EXPECT_EQ(result.parameters, result.way == "dense" ? 23 * 8 : 4 * 2 * 5 + 5 * 6 * 4) << result.way;
    EXPECT_EQ(result.bytes > 0, result.way != "dense");
  }
  EXPECT_EQ(results[4].way, "dense");
  EXPECT_EQ(results[7].way, "factors");
  EXPECT_THAT(lookup_text(options, results), testing::HasSubstr("23 rows of 8: [4,6] x [2,4] ranks 5"));
}

TEST(LookupBenchmark, DrawsFrequentIdsOften) {
  LookupBenchmarkOptions options = small_lookup();
  options.tokens = {2000};
  EXPECT_EQ(benchmark_lookup(options)[0].distinct, 23);
  options.exponent = 6;  // the first id is then 98 % of all
  EXPECT_LT(benchmark_lookup(options)[0].distinct, 10);
}

TEST(LookupBenchmark, SaysWhatDoesNotFit) {
  LookupBenchmarkOptions options = small_lookup();
  options.text = {1, 2, 3};
  EXPECT_THROW(benchmark_lookup(options), Error);
  options.tokens = {3}, options.text = {1, 2, 23};
  EXPECT_THROW(benchmark_lookup(options), Error);
}

}  // namespace
}  // namespace comera::test
