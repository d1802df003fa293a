#include <gtest/gtest.h>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/plain/plain_backend.h"
#include "model/model.h"
#include "tests/model/configs.h"
#include "tests/support/batches.h"
#include "tests/support/harness.h"

namespace comera::test {
namespace {

// What a head reads of the encoder's output, computed with all rows and alone, which the last block does.
void expect_same_rows(const EncoderConfig& config, const Backend& backend, double tolerance) {
  Model model(config, host_allocator(), false);
  model.parameters().initialize(11);
  const PackedBatch batch =
      random_batch({7, 3, 1, 9, 4}, config.vocabulary, model.token_embedding().right_rows());
  Harness harness(backend);
  const EncoderStep step(
      {harness.context(), model.parameters(), harness.step_inputs(), harness.step_results(), false}, batch);
  const std::vector<double> all = read_tensor(model.encode(step));
  const std::optional<RowList> read = model.head().reads(batch);
  ASSERT_TRUE(read);
  const Tensor alone = model.encode(step, read);
  ASSERT_EQ(alone.dim(0), read->most);
  const std::vector<double> rows = read_tensor(alone);
  const std::int32_t count = *read->count.data<std::int32_t>();
  ASSERT_GT(count, 2);
  std::vector<double> expected, got(rows.begin(), rows.begin() + count * config.hidden);
  for (std::int32_t i = 0; i < count; ++i) {
    const double* row = all.data() + read->indices.data<std::int32_t>()[i] * config.hidden;
    expected.insert(expected.end(), row, row + config.hidden);
  }
  EXPECT_LE(relative_error(got, expected), tolerance);
}

TEST(ReadRows, AreComputedAloneAsWithAllOthers) {
  for (const HeadKind head : {HeadKind::mlm, HeadKind::classification})
    for (const NormPlacement norm : {NormPlacement::post, NormPlacement::pre}) {
      std::vector<EncoderConfig> configs = {small_config(false, head, norm), small_config(true, head, norm),
                                            removed_config(head, norm), lte_config()};
      configs.push_back(small_config(true, head, norm));
      configs.back().positions = Positions::rotary;
      configs.push_back(small_config(true, head, norm));
      configs.back().positions = Positions::relative;
      for (EncoderConfig& config : configs) {
        expect_same_rows(config, plain_backend(), 1e-13);
        config.compute = DType::float32;
        expect_same_rows(config, cpu_backend(), 1e-5);
        config.compute = DType::bfloat16;
        expect_same_rows(config, cpu_backend(), 0.02);
      }
    }
}

// A head that takes means reads all of it.
TEST(ReadRows, AreAllOfThoseOfAMean) {
  EncoderConfig config = small_config(true, HeadKind::classification);
  config.pooling = Pooling::mean;
  const Model model(config, host_allocator(), false);
  EXPECT_FALSE(model.head().reads(random_batch({7, 3}, config.vocabulary, 0)));
}

}  // namespace
}  // namespace comera::test
