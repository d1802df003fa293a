#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/plain/plain_backend.h"
#include "model/model.h"
#include "tests/model/configs.h"
#include "tests/support/batches.h"
#include "tests/support/harness.h"

namespace comera::test {
namespace {

// The rows that a list names, one after another, and zeros up to the list's capacity.
std::vector<double> rows_of(const std::vector<double>& all, const RowList& list, std::int64_t width) {
  std::vector<double> rows(static_cast<std::size_t>(list.most * width));
  for (std::int32_t i = 0; i < *list.count.data<std::int32_t>(); ++i)
    std::copy_n(all.begin() + list.indices.data<std::int32_t>()[i] * width, width, rows.begin() + i * width);
  return rows;
}

// The rows of the encoder's output that a head reads, computed with all rows and alone by the last block; and
// the first tokens' vectors.
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
  ASSERT_GT(*read->count.data<std::int32_t>(), 2);
  EXPECT_LE(relative_error(read_tensor(model.encode(step, read)), rows_of(all, *read, config.hidden)),
            tolerance);

  const std::optional<RowList> first = pooled_rows(batch, Pooling::first);
  ASSERT_TRUE(first);
  ASSERT_LT(*first->count.data<std::int32_t>(), first->most) << "a row of zeros";
  const Tensor vectors = harness.tensor({first->most, config.hidden}, config.compute);
  model.embed(step, Pooling::first, vectors);
  EXPECT_LE(relative_error(read_tensor(vectors), rows_of(all, *first, config.hidden)), tolerance);
}

TEST(ReadRows, AreComputedAloneAsWithAllOthers) {
  for (const HeadKind head : {HeadKind::mlm, HeadKind::classification})
    for (const NormPlacement norm : {NormPlacement::post, NormPlacement::pre}) {
      std::vector<EncoderConfig> configs = {small_config(false, head, norm), small_config(true, head, norm),
                                            removed_config(head, norm), removed_from_last(head, norm),
                                            lte_config(head, norm)};
      for (const Positions positions : {Positions::rotary, Positions::relative}) {
        configs.push_back(small_config(true, head, norm));
        configs.back().positions = positions;
      }
      for (EncoderConfig& config : configs) {
        expect_same_rows(config, plain_backend(), 1e-13);
        config.compute = DType::float32;
        expect_same_rows(config, cpu_backend(), 1e-5);
        config.compute = DType::bfloat16;
        expect_same_rows(config, cpu_backend(), 0.02);
      }
    }
}

// Nothing is masked, and there is no sequence: losses and gradients are 0.
TEST(ReadRows, MayBeNone) {
  for (const HeadKind head : {HeadKind::mlm, HeadKind::classification})
    for (const bool tensorized : {false, true}) {
      const EncoderConfig config = small_config(tensorized, head);
      Model model(config, host_allocator(), true);
      model.parameters().initialize(11);
      const PackedBatch batch =
          random_batch({7, 3, 1}, config.vocabulary, model.token_embedding().right_rows());
      auto* counts = batch.counts.data<std::int32_t>();
      counts[1] = counts[2] = counts[4] = 0;
      Harness harness(plain_backend());
      const EncoderStep step(
          {harness.context(), model.parameters(), harness.step_inputs(), harness.step_results(), true},
          batch);
      model.run_micro_batch(step, true);
      EXPECT_EQ(harness.results().target_count, 0);
      EXPECT_EQ(harness.results().loss_sum, 0);
      for (const double gradient : read_tensor(model.parameters().gradients())) ASSERT_EQ(gradient, 0);
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
