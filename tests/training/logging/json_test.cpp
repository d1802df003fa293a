#include "training/logging/json.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

namespace comera {
namespace {

TEST(Json, KeysKeepTheirOrder) {
  Json object = {{"step", 3}, {"loss", 2.5}};
  object["all"] = {1, 2};
  EXPECT_EQ(json_text(object), R"({"step":3,"loss":2.5,"all":[1,2]})");
}

TEST(Json, WhatJsonLacksIsNullOrLeftOut) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  Json object = {{"a", nan}, {"b", -std::numeric_limits<double>::infinity()}};
  set_if_finite(object, "c", nan);
  set_if_finite(object, "d", 1.5);
  EXPECT_EQ(json_text(object), R"({"a":null,"b":null,"d":1.5})");
}

TEST(Json, NumbersKeepTheirBits) {
  for (const double value : {0.1, 1.0 / 3, 1e300, 5e-324, 1.0})
    EXPECT_EQ(Json::parse(json_text({{"x", value}}))["x"].get<double>(), value);
}

// Names of files may hold any bytes.
TEST(Json, WhatIsNoUtf8IsReplaced) {
  EXPECT_EQ(json_text({{"name", "a\x80z"}}), "{\"name\":\"a\xef\xbf\xbdz\"}");
  EXPECT_EQ(json_text({{"name", "a\n\"\xc3\xa9"}}), "{\"name\":\"a\\n\\\"\xc3\xa9\"}");
}

}  // namespace
}  // namespace comera
