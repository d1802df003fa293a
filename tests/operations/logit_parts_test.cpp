// How losses over a vocabulary divide their logits.
#include <gtest/gtest.h>

#include "kernels/ops/elementwise/logit_parts.h"

namespace comera::test {
namespace {

const MachineModel processor;

TEST(LogitParts, BlocksOfRowsAreNearlyEqualAndNeverLargerThanOfTheMostRows) {
  for (const DType compute : {DType::bfloat16, DType::float32})
    for (const std::int64_t classes : {700, 8192, 30522, 50265})
      for (const std::int64_t most : {1, 8, 100, 388, 720, 2688}) {
        const std::int64_t bytes = classes * static_cast<std::int64_t>(size_of(compute));
        const std::int64_t at_once = logit_rows_at_once(processor, most, classes, compute);
        EXPECT_TRUE(at_once == 8 || 2 * at_once * bytes <= 5 * processor.part_bytes)
            << classes << " " << most;
        EXPECT_EQ(equal_logit_rows(most, at_once), at_once);  // what a dry run has
        for (std::int64_t rows = 1; rows <= most; ++rows) {
          const std::int64_t block = equal_logit_rows(rows, at_once), blocks = (rows + block - 1) / block;
          ASSERT_LE(block, at_once);
          ASSERT_EQ(blocks, (rows + at_once - 1) / at_once);  // no more than there have to be
          ASSERT_LT(block - (rows - (blocks - 1) * block), 8 * blocks) << rows;  // the last one lacks little
        }
      }
  // 30 % of 2,048 tokens: two halves instead of 544 rows and 70.
  EXPECT_EQ(equal_logit_rows(614, logit_rows_at_once(processor, 720, 30522, DType::bfloat16)), 312);
}

TEST(LogitParts, PartsOfClassesStayInACoresCache) {
  for (const std::int64_t classes : {700, 8192, 30522, 50265})
    for (const std::int64_t unit : {1, 32, 45, 1024})
      for (const std::int64_t table_row : {256, 512, 1536})
        for (const std::int64_t rows : {8, 388, 544, 2500}) {
          const std::int64_t part =
              classes_at_once(processor, classes, unit, table_row, rows, DType::bfloat16);
          EXPECT_EQ(part % unit, 0);
          if (part > unit) {
            EXPECT_LE(std::min(part, classes) * table_row, processor.cached_bytes);
            EXPECT_LE(std::min(part, classes) * rows * 2,
                      std::max<std::int64_t>(2 * processor.cached_bytes, 1024 * rows));
          }
          if (part < classes && unit < 1024)
            EXPECT_NE(part * 2 % 2048, 0) << classes << " " << unit << " " << rows;
        }
  // Whole where there is memory for it, as on a GPU, also if the last unit has none, and one unit where not
  // even that stays in the cache.
  EXPECT_EQ(classes_at_once(h100, 30522, 32, 256, 4000, DType::bfloat16), 30528);
  EXPECT_EQ(classes_at_once({.cached_bytes = 30559 * 256}, 30522, 100, 256, 8, DType::bfloat16), 30600);
  EXPECT_EQ(classes_at_once(processor, 30522, 4096, 4096, 544, DType::bfloat16), 4096);
}

}  // namespace
}  // namespace comera::test
