#include "data/shards/block_cache.h"

#include <gmock/gmock.h>

#include <stdexcept>
#include <vector>

namespace comera::data {
namespace {

using testing::ElementsAre;

TEST(BlockCache, KeepsTheBlocksAskedForLast) {
  BlockCache<int> cache(300, 100);
  std::vector<int> filled;
  const auto get = [&](int index) {
    return cache.get(0, index, [&](int& block) { filled.push_back(block = index); });
  };
  for (const int index : {1, 2, 3, 1, 4, 1, 3, 2}) EXPECT_EQ(get(index), index);
  EXPECT_THAT(filled, ElementsAre(1, 2, 3, 4, 2));
  EXPECT_EQ(cache.get(1, 2, [](int& block) { block = 12; }), 12) << "of another file";
  EXPECT_EQ(BlockCache<int>(0, 100).most(), 2u);
}

TEST(BlockCache, ABlockThatCouldNotBeReadIsAskedForAgain) {
  BlockCache<int> cache(0, 1);
  for (int index = 0; index < 5; ++index) {
    EXPECT_THROW(cache.get(0, index, [](int&) { throw std::runtime_error("unreadable"); }),
                 std::runtime_error);
    EXPECT_EQ(cache.get(0, index, [&](int& block) { block = index; }), index);
    EXPECT_EQ(cache.get(0, index, [](int& block) { block = -1; }), index);
  }
}

}  // namespace
}  // namespace comera::data
