#include "training/json.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>

namespace comera {
namespace {

TEST(Json, ObjectsInOrder) {
  JsonObject inner;
  inner.add("cores", 1e-4).add("rest", 5e-5);
  JsonObject object;
  object.add("step", 3).add("loss", 2.5).add("ok", true).add("stage", "early").add("rates", inner);
  object.add("ranks", std::vector<std::int64_t>{1, 2}).add("norms", std::vector<double>{0.5, 1});
  EXPECT_EQ(object.text(),
            R"({"step":3,"loss":2.5,"ok":true,"stage":"early","rates":{"cores":0.0001,"rest":5e-05},)"
            R"("ranks":[1,2],"norms":[0.5,1]})");
  EXPECT_EQ(JsonObject().text(), "{}");
  EXPECT_EQ(JsonObject().add("all", std::vector<JsonObject>{inner, {}}).text(),
            R"({"all":[{"cores":0.0001,"rest":5e-05},{}]})");
}

TEST(Json, WhatJsonLacksIsNull) {
  const double infinity = std::numeric_limits<double>::infinity();
  JsonObject object;
  object.add("a", std::numeric_limits<double>::quiet_NaN()).add("b", -infinity);
  object.add("c", std::vector<double>{1, infinity});
  EXPECT_EQ(object.text(), R"({"a":null,"b":null,"c":[1,null]})");
}

TEST(Json, WhatIsNotFiniteMayBeLeftOut) {
  JsonObject object;
  object.add_finite("a", 1).add_finite("b", std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(object.text(), R"({"a":1})");
}

TEST(Json, NumbersKeepTheirBits) {
  for (const double value : {0.1, 1.0 / 3, 1e300, 5e-324}) {
    JsonObject object;
    object.add("x", value);
    EXPECT_EQ(std::strtod(object.text().c_str() + 5, nullptr), value);
  }
  JsonObject object;
  object.add("x", std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(object.text(), R"({"x":-9223372036854775808})");
}

TEST(Json, StringsAreEscaped) {
  EXPECT_EQ(json_string("a\"b\\c/d"), R"("a\"b\\c/d")");
  EXPECT_EQ(json_string(std::string_view("\n\t\0\x1f", 4)), R"("\n\u0009\u0000\u001f")");
  EXPECT_EQ(json_string("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"), "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"");
}

TEST(Json, WhatIsNoUtf8IsReplaced) {
  const std::string replaced = "\"\xef\xbf\xbd\"";
  EXPECT_EQ(json_string("\xff"), replaced);
  EXPECT_EQ(json_string("\xc3"), replaced);                      // ends too early
  EXPECT_EQ(json_string("\xc0\x80").size(), 2 + 2 * 3);          // too long a form
  EXPECT_EQ(json_string("\xed\xa0\x80").size(), 2 + 3 * 3);      // a surrogate
  EXPECT_EQ(json_string("\xf4\x90\x80\x80").size(), 2 + 4 * 3);  // beyond U+10FFFF
  EXPECT_EQ(json_string("a\x80z"), "\"a\xef\xbf\xbdz\"");
}

}  // namespace
}  // namespace comera
