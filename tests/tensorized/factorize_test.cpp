#include "tensorized/decomposition/factorize.h"

#include <gmock/gmock.h>

namespace comera::test {
namespace {

// Of Criteo Kaggle's tables.
constexpr std::int64_t heights[] = {1460,  583,  10131227, 2202608, 305, 24,     12517,   633,   3,
                                    93145, 5683, 8351593,  3194,    27,  14992,  5461306, 10,    5652,
                                    2173,  4,    7046547,  18,      15,  286181, 105,     142572};

TEST(FactorizeTable, HasRoomForEveryHeightWithLittlePadding) {
  for (const std::int64_t rows : heights)
    for (const std::int64_t width : {16, 60, 64, 128})
      for (const int cores : {2, 3, 4}) {
        const std::optional<TTMShape> shape = factorize_table(rows, width, cores, 32);
        if (!shape) continue;
        EXPECT_NO_THROW(shape->validate("table", rows, width)) << rows << " " << shape->text();
        EXPECT_LT(shape->core_parameters(), rows * width);
        if (rows > 10000) {
          EXPECT_LT(static_cast<double>(shape->rows()), 1.02 * static_cast<double>(rows)) << shape->text();
        }
      }
}

// Against all row modes of three cores, tried one after the other.
TEST(FactorizeTable, FindsNearlyTheFewestNumbers) {
  for (const std::int64_t rows : {1000, 5683, 14992, 93145}) {
    const std::optional<TTMShape> found = factorize_table(rows, 16, 3, 8);
    ASSERT_TRUE(found);
    std::int64_t fewest = found->core_parameters();
    for (std::int64_t a = 4; a < 500; ++a)
      for (std::int64_t b = 4; a * b <= rows; ++b) {
        const std::int64_t c = (rows + a * b - 1) / (a * b);
        fewest = std::min(fewest, 8 * (a * 2 + 8 * b * 4 + c * 2));
      }
    EXPECT_LT(static_cast<double>(found->core_parameters()), 1.05 * static_cast<double>(fewest))
        << found->text();
  }
}

TEST(FactorizeTable, LeavesSmallTablesDense) {
  for (const std::int64_t rows : {1, 3, 24, 105}) EXPECT_FALSE(factorize_table(rows, 16, 3, 32)) << rows;
}

TEST(FactorizeTable, MakesColumnModesAsEqualAsItCan) {
  EXPECT_THAT(factorize_table(1 << 20, 16, 3, 16)->column_modes, testing::ElementsAre(2, 4, 2));
  EXPECT_THAT(factorize_table(1 << 20, 128, 3, 16)->column_modes, testing::ElementsAre(4, 8, 4));
  EXPECT_THAT(factorize_table(1 << 20, 60, 2, 16)->column_modes, testing::ElementsAre(10, 6));
  EXPECT_THAT(factorize_table(1 << 20, 7, 3, 4)->column_modes, testing::ElementsAre(1, 7, 1));
}

TEST(FactorizeLayer, HasRanksThatArePossible) {
  for (const std::int64_t inputs : {1, 13, 367, 512, 64})
    for (const std::int64_t outputs : {16, 64, 97, 512})
      for (const std::int64_t rank : {1, 8, 200}) {
        const std::optional<TTShape> shape = factorize_layer(inputs, outputs, rank);
        if (!shape) continue;
        EXPECT_NO_THROW(shape->validate("layer", inputs, outputs)) << shape->text();
        EXPECT_LT(shape->core_parameters(), inputs * outputs);
      }
  EXPECT_EQ(factorize_layer(512, 256, 8)->text(), "[16,32 | 16,16] ranks 8,8,8");
  EXPECT_EQ(factorize_layer(367, 512, 8)->text(), "[367 | 32,16] ranks 8,8") << "367 is a prime";
  EXPECT_EQ(factorize_layer(13, 16, 16), std::nullopt);
}

}  // namespace
}  // namespace comera::test
