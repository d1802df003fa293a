#include "reports/tensorboard.h"

#include <gmock/gmock.h>

#include <bit>
#include <cstring>

namespace comera {
namespace {

using testing::HasSubstr;

// The examples of RFC 3720, appendix B.4.
TEST(Tensorboard, ChecksumsAreCastagnolis) {
  const auto masked = [](std::uint32_t crc) { return std::rotr(crc, 15) + 0xa282ead8u; };
  std::string ascending;
  for (char c = 0; c < 32; ++c) ascending += c;
  EXPECT_EQ(masked_crc32c(std::string(32, '\0')), masked(0x8a9136aau));
  EXPECT_EQ(masked_crc32c(std::string(32, '\xff')), masked(0x62a8ab43u));
  EXPECT_EQ(masked_crc32c(ascending), masked(0x46dd794eu));
}

// Splits a file into its records, with every checksum compared.
std::vector<std::string> records_of(const std::string& file) {
  std::vector<std::string> records;
  const auto word = [&](std::size_t at) {
    std::uint32_t value = 0;
    std::memcpy(&value, &file[at], sizeof value);
    return value;
  };
  for (std::size_t at = 0; at < file.size();) {
    std::uint64_t length = 0;
    std::memcpy(&length, &file[at], sizeof length);
    EXPECT_EQ(word(at + 8), masked_crc32c(file.substr(at, 8)));
    records.push_back(file.substr(at + 12, length));
    EXPECT_EQ(word(at + 12 + length), masked_crc32c(records.back()));
    at += length + 16;
  }
  return records;
}

TEST(Tensorboard, EveryNumberIsAScalarOfItsStep) {
  using Json = nlohmann::ordered_json;
  const std::vector<Json> metrics = {
      Json{{"step", 10},
           {"phase", "short"},
           {"loss", 2.5},
           {"learning_rate", {{"cores", 0.25}}},
           {"ms_per_step", 1000}},
      Json{{"step", 300}, {"validation_loss", 1.5}, {"unigram_loss", nullptr}},
      Json{{"step", 300}, {"phase", "short"}, {"loss", 2}, {"ms_per_step", 100}}};
  const std::vector<std::string> records = records_of(tensorboard_events(metrics, 5000));
  ASSERT_EQ(records.size(), 4u);
  EXPECT_THAT(records[0], HasSubstr("brain.Event:2"));
  const auto scalar = [](const std::string& tag, float value) {
    std::string bytes(4, '\0');
    std::memcpy(bytes.data(), &value, 4);
    return std::string("\x0a") + static_cast<char>(tag.size()) + tag + "\x15" + bytes;
  };
  EXPECT_THAT(records[1], HasSubstr(scalar("loss", 2.5)));
  EXPECT_THAT(records[1], HasSubstr(scalar("learning_rate/cores", 0.25)));
  EXPECT_THAT(records[1], testing::Not(HasSubstr("phase")));
  EXPECT_THAT(records[2], HasSubstr(scalar("validation_loss", 1.5)));
  EXPECT_THAT(records[2], testing::Not(HasSubstr("unigram_loss")));
  EXPECT_EQ(records[2].substr(9, 3), "\x10\xac\x02");  // the step, 300
  const auto time = [&](int i) {
    double value = 0;
    std::memcpy(&value, &records[i][1], sizeof value);
    return value;
  };
  EXPECT_DOUBLE_EQ(time(3), 5000);
  EXPECT_DOUBLE_EQ(time(1), 5000 - 29);  // 290 steps of 100 ms before
}

}  // namespace
}  // namespace comera
