#include "tensorized/decomposition/shapes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/core/check.h"

namespace comera {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

TEST(TTShape, Counts) {
  const TTShape shape{{12, 8, 8}, {8, 8, 12}, {12, 30, 30, 30, 12}};
  EXPECT_EQ(shape.core_parameters(), 144 + 2880 + 7200 + 7200 + 2880 + 144);
  EXPECT_EQ(shape.gates(), 114);
  EXPECT_NO_THROW(shape.validate("layer", 768, 768));
}

TEST(TTShape, RefusesWhatIsImpossible) {
  const TTShape shape{{12, 8, 8}, {8, 8, 12}, {12, 30, 30, 30, 12}};
  EXPECT_THAT([&] { shape.validate("attention", 512, 768); },
              ThrowsMessage<Error>(HasSubstr("attention: the input modes [12, 8, 8] multiply to 768")));
  EXPECT_THAT([&] { shape.validate("attention", 768, 512); },
              ThrowsMessage<Error>(HasSubstr("output modes")));
  const TTShape large{{4, 4}, {4, 4}, {5, 16, 4}};
  EXPECT_THAT([&] { large.validate("ffn", 16, 16); },
              ThrowsMessage<Error>(HasSubstr("rank 5 of bond 1 is impossible; choose 1 to 4")));
  const TTShape few{{4, 4}, {4, 4}, {4, 16}};
  EXPECT_THAT([&] { few.validate("ffn", 16, 16); }, ThrowsMessage<Error>(HasSubstr("4 modes need 3 ranks")));
  const TTShape none{{}, {4, 4}, {4}};
  EXPECT_THAT([&] { none.validate("ffn", 1, 16); }, ThrowsMessage<Error>(HasSubstr("non-empty")));
  const TTShape many{std::vector<std::int64_t>(9, 2), std::vector<std::int64_t>(8, 2),
                     std::vector<std::int64_t>(16, 2)};
  EXPECT_THAT(
      [&] { many.validate("ffn", 512, 256); },
      ThrowsMessage<Error>(HasSubstr("17 input and output modes make 17 cores; at most 16 are possible")));
}

TEST(TTShape, MayBeRemoved) {
  const TTShape shape{{12, 8, 8}, {8, 8, 12}, {0, 0, 0, 0, 0}};
  EXPECT_TRUE(shape.removed());
  EXPECT_NO_THROW(shape.validate("layer", 768, 768));
  EXPECT_EQ(shape.core_parameters(), 0);
  EXPECT_EQ(shape.gates(), 0);
  EXPECT_EQ(shape.text(), "[12,8,8 | 8,8,12] removed");
  const TTShape half{{4, 4}, {4, 4}, {4, 0, 0}};
  EXPECT_FALSE(half.removed());
  EXPECT_THAT([&] { half.validate("ffn", 16, 16); },
              ThrowsMessage<Error>(HasSubstr("rank 0 of bond 2 is impossible; choose 1 to 16")));
  const TTShape few{{4, 4}, {4, 4}, {0, 0}};
  EXPECT_THAT([&] { few.validate("ffn", 16, 16); }, ThrowsMessage<Error>(HasSubstr("4 modes need 3 ranks")));
}

TEST(TTMShape, CountsItsColumns) {
  const TTMShape shape{{16, 20, 10, 10}, {4, 4, 8, 6}, {32, 32, 32}};
  EXPECT_EQ(shape.core_parameters(), 16 * 4 * 32 + 32 * 20 * 4 * 32 + 32 * 10 * 8 * 32 + 32 * 10 * 6);
  EXPECT_EQ(shape.right_rows(), 100);
  EXPECT_NO_THROW(shape.validate("embedding", 30522, 768));
  EXPECT_THAT([&] { shape.validate("embedding", 32001, 768); },
              ThrowsMessage<Error>(HasSubstr("fewer than the vocabulary of 32001")));
}

}  // namespace
}  // namespace comera
