#include "exchange/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>

#include "tests/support/temporary_folder.h"

namespace comera::exchange {
namespace {

using test::error_of;
using test::TemporaryFolder;
using testing::HasSubstr;

// A file with such a header, and so many bytes behind it.
std::string file_of(const std::string& header, std::size_t bytes) {
  const std::uint64_t size = header.size();
  std::string file(sizeof size, '\0');
  std::memcpy(file.data(), &size, sizeof size);
  return file + header + std::string(bytes, '\0');
}

TEST(Safetensors, AreReadAsTheyWereWritten) {
  const TemporaryFolder folder;
  write_safetensors(folder / "model.safetensors",
                    {{"b", {2, 3}, [] { return std::vector<double>{1, -2, 3.5, 0, 1e-30, 7}; }},
                     {"a.weight", {1}, [] { return std::vector<double>{0.1}; }},
                     {"nothing", {0, 4}, [] { return std::vector<double>(); }}});
  const SafetensorsReader reader(folder.path());
  EXPECT_EQ(reader.names(), (std::vector<std::string>{"a.weight", "b", "nothing"}));
  EXPECT_EQ(reader.shape("b"), (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(reader.read("b"), (std::vector<double>{1, -2, 3.5, 0, 1e-30F, 7}));
  EXPECT_EQ(reader.read("a.weight"), (std::vector<double>{0.1F}));
  EXPECT_TRUE(reader.read("nothing").empty());
  EXPECT_THAT(error_of([&] { reader.read("c"); }), HasSubstr("its weights have no c"));
  // Numbers begin where a float may lie.
  const std::string text = test::read_text(folder / "model.safetensors");
  std::uint64_t header = 0;
  std::memcpy(&header, text.data(), sizeof header);
  EXPECT_EQ(header % 8, 0U);
}

TEST(Safetensors, NarrowNumbersAreWhatTheyStandFor) {
  const TemporaryFolder folder;
  std::string file = file_of(
      R"({"half":{"dtype":"F16","shape":[5],"data_offsets":[0,10]},"brain":{"dtype":"BF16","shape":[2],"data_offsets":[10,14]},)"
      R"("wide":{"dtype":"F64","shape":[],"data_offsets":[14,22]},"ids":{"dtype":"I64","shape":[1],"data_offsets":[22,30]}})",
      30);
  const std::size_t data = file.size() - 30;
  const std::uint16_t half[] = {0x3c00, 0xc500, 0x0001, 0x7bff, 0x0400}, brain[] = {0x3fc0, 0xc2f7};
  const double wide = 0.1;
  std::memcpy(file.data() + data, half, sizeof half);
  std::memcpy(file.data() + data + 10, brain, sizeof brain);
  std::memcpy(file.data() + data + 14, &wide, sizeof wide);
  folder.write("model.safetensors", file);
  const SafetensorsReader reader(folder.path());
  EXPECT_EQ(reader.read("half"),
            (std::vector<double>{1, -5, std::ldexp(1.0, -24), 65504, std::ldexp(1.0, -14)}));
  EXPECT_EQ(reader.read("brain"), (std::vector<double>{1.5, -123.5}));
  EXPECT_EQ(reader.read("wide"), (std::vector<double>{0.1}));
  EXPECT_THAT(error_of([&] { reader.read("ids"); }), HasSubstr("ids has numbers of type I64"));
}

TEST(Safetensors, NumbersThatAreNotFiniteAreRefused) {
  for (const std::uint16_t bits : {0x7c00, 0x7e00}) {
    const TemporaryFolder folder;
    std::string file = file_of(R"({"x":{"dtype":"F16","shape":[1],"data_offsets":[0,2]}})", 2);
    std::memcpy(file.data() + file.size() - 2, &bits, sizeof bits);
    folder.write("model.safetensors", file);
    EXPECT_THAT(error_of([&] { SafetensorsReader(folder.path()).read("x"); }), HasSubstr("not finite"));
  }
}

TEST(Safetensors, WhatIsDamagedIsRefused) {
  const std::string good = R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  const struct {
    std::string file, error;
  } cases[] = {
      {"", "it has 0 bytes"},
      {"PK\3\4", "it has 4 bytes"},
      {std::string(8, '\xff'), "truncated"},
      {file_of(good, 7), "lies outside the file"},
      {file_of(good, 8).substr(0, 30), "truncated"},
      {file_of("[]", 0), "its header cannot be read"},
      {file_of("{", 0), "its header is damaged: it is not JSON"},
      {file_of(std::string(100'000, '['), 0), "its header is damaged: it is nested too deeply"},
      {file_of(R"({"x":3})", 0), "its header cannot be read"},
      {file_of(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0]}})", 8), "lies outside the file"},
      {file_of(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8), "lies outside the file"},
      {file_of(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[-8,0]}})", 8), "lies outside the file"},
      {file_of(R"({"x":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 16), "its shape needs 12"},
      {file_of(R"({"x":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8), "impossible shape"},
      {file_of(R"({"x":{"dtype":"F32","shape":[4294967296,4294967296,4],"data_offsets":[0,0]}})", 8),
       "impossible shape"},
      {file_of(R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
               R"("y":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}})",
               8),
       "share their bytes"},
      {file_of(good, 9), "1 bytes follow its last tensor"},
      {file_of(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})", 12),
       "4 of its bytes belong to no tensor"},
      {file_of(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0.5,8.5]}})", 8),
       "its header has 0.5 for a size or an offset"},
  };
  for (const auto& [file, error] : cases) {
    const TemporaryFolder folder;
    folder.write("model.safetensors", file);
    const std::string found = error_of([&] { SafetensorsReader(folder.path()); });
    EXPECT_THAT(found, HasSubstr(error)) << file.substr(0, 100);
    EXPECT_THAT(found, HasSubstr("model.safetensors"));
  }
}

TEST(Safetensors, APipeIsNotWaitedFor) {
  const TemporaryFolder folder;
  ASSERT_EQ(mkfifo((folder / "model.safetensors").c_str(), 0600), 0);
  EXPECT_THAT(error_of([&] { SafetensorsReader(folder.path()); }),
              HasSubstr("is a pipe or a device, expected a file"));
}

TEST(Safetensors, SeveralFilesAreFoundByTheirIndex) {
  const TemporaryFolder folder;
  const auto write = [&](const char* file, const char* name, double value) {
    write_safetensors(folder / file, {{name, {1}, [=] { return std::vector<double>{value}; }}});
  };
  write("model-1.safetensors", "a", 1);
  write("model-2.safetensors", "b", 2);
  folder.write("model.safetensors.index.json",
               R"({"weight_map":{"a":"model-1.safetensors","b":"model-2.safetensors"}})");
  {
    const SafetensorsReader reader(folder.path());
    EXPECT_EQ(reader.read("a"), std::vector<double>{1});
    EXPECT_EQ(reader.read("b"), std::vector<double>{2});
  }
  write("model-2.safetensors", "a", 2);
  EXPECT_THAT(error_of([&] { SafetensorsReader(folder.path()); }), HasSubstr("a is also in another file"));
  folder.write("model.safetensors.index.json", R"({"weight_map":{"a":"../model-1.safetensors"}})");
  EXPECT_THAT(error_of([&] { SafetensorsReader(folder.path()); }), HasSubstr("outside its folder"));
  folder.write("model.safetensors.index.json", R"({"weight_map":[)");
  EXPECT_THAT(error_of([&] { SafetensorsReader(folder.path()); }), HasSubstr("is damaged"));
}

TEST(Safetensors, PickledWeightsAreNotRead) {
  const TemporaryFolder folder;
  EXPECT_THAT(error_of([&] { SafetensorsReader(folder.path()); }), HasSubstr("holds neither"));
  folder.write("pytorch_model.bin", "x");
  EXPECT_THAT(error_of([&] { SafetensorsReader(folder.path()); }),
              HasSubstr("save the model as safetensors"));
}

}  // namespace
}  // namespace comera::exchange
