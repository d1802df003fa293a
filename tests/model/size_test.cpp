#include <gtest/gtest.h>

#include "model/model.h"
#include "tests/model/configs.h"

namespace comera::test {
namespace {

std::int64_t count(const ParameterStore& store, const std::string& part, const std::string& ending = "") {
  std::int64_t total = 0;
  for (ParameterId id = 0; id < store.size(); ++id) {
    const auto& info = store.info(id);
    if (info.role != ParameterRole::gate && info.name.find(part) != std::string::npos &&
        info.name.ends_with(ending))
      total += info.shape.elements();
  }
  return total;
}

TEST(SixEncoder, HasTheSizesOfThePaper) {
  const Model model(six_encoder(), host_allocator(), false);
  const ParameterStore& store = model.parameters();
  EXPECT_EQ(store.count(), 1485795);
  EXPECT_EQ(store.count(ParameterRole::core), 1026528);
  EXPECT_EQ(store.count(ParameterRole::gate), 4362);
  EXPECT_EQ(count(store, "norm"), 19968);
  EXPECT_EQ(count(store, "embedding.positions"), 393216);
  EXPECT_EQ(count(store, "embedding.types"), 1536);
  EXPECT_EQ(count(store, "head.classifier"), 2307);
  EXPECT_EQ(
      count(store, "attention", ".bias") + count(store, "ffn", ".bias") + count(store, "pooler", ".bias"),
      42240);
}

TEST(SixEncoder, DenseBaseline) {
  const Model model(six_encoder().dense_baseline(), host_allocator(), false);
  EXPECT_EQ(model.parameters().count(), 66957315);
  EXPECT_EQ(model.parameters().count(ParameterRole::gate), 0);
}

}  // namespace
}  // namespace comera::test
