#include "recipes/suggest.h"

#include <gtest/gtest.h>

namespace comera {
namespace {

TEST(Suggest, EditDistance) {
  EXPECT_EQ(edit_distance("", ""), 0);
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("abc", "abc"), 0);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
  EXPECT_EQ(edit_distance("modle", "model"), 1);
}

TEST(Suggest, NearestOrNothing) {
  const std::vector<std::string> keys = {"layers", "hidden", "heads"};
  EXPECT_EQ(nearest("layer", keys), "layers");
  EXPECT_EQ(nearest("haeds", keys), "heads");
  EXPECT_EQ(nearest("quux", keys), "");
  EXPECT_EQ(nearest("x", {"ab"}), "");
  EXPECT_EQ(suggestion("quux", keys), "; expected one of layers, hidden, heads");
}

}  // namespace
}  // namespace comera
