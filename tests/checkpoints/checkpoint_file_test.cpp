#include <gmock/gmock.h>

#include <cstring>

#include "tests/checkpoints/sample.h"

namespace comera::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(CheckpointFile, ReturnsWhatWasWritten) {
  TemporaryFolder folder;
  write_sample(folder / "a.h5", 0.5);
  const CheckpointReader reader(folder / "a.h5");
  EXPECT_EQ(reader.read_values<float>("/model/layer_0/core"), counting<float>(24, 0.5f));
  EXPECT_EQ(reader.read_values<double>("/optimizer/layer_0/core/m"), counting<double>(6, 0.5));
  EXPECT_EQ(reader.read_values<std::uint8_t>("/model/layer_0/gate"), counting<std::uint8_t>(7));
  EXPECT_EQ(reader.read_values<std::int32_t>("/data/ids"), counting<std::int32_t>(5, -2));
  EXPECT_EQ(reader.read_values<std::int64_t>("/data/offsets"),
            counting<std::int64_t>(4, std::int64_t{1} << 40));
  EXPECT_TRUE(reader.read_values<float>("/data/none").empty());
  EXPECT_EQ(reader.integer("/trainer", "step"), 12);
  EXPECT_EQ(reader.number("/trainer", "loss"), 0.1 + 0.5);
  EXPECT_EQ(reader.text("/trainer", "stage"), "early");
  EXPECT_EQ(reader.text("/recipe", "toml"), std::string(100000, 'x'));
  EXPECT_THAT(reader.list("/model/layer_0/core", "ranks"), ElementsAre(1, 12, 1));
  EXPECT_EQ(reader.attributes("/model/layer_0/core").size(), 2);
  EXPECT_TRUE(reader.attributes("/nowhere").empty());
  reader.verify();
  EXPECT_TRUE(left_overs(folder.path()).empty());
}

TEST(CheckpointFile, ListsWithoutReadingTensors) {
  TemporaryFolder folder;
  write_sample(folder / "a.h5");
  const CheckpointReader reader(folder / "a.h5");
  std::vector<std::string> names;
  for (const auto& tensor : reader.tensors()) names.push_back(tensor.path);
  EXPECT_THAT(names, ElementsAre("/data/ids", "/data/none", "/data/offsets", "/model/layer_0/core",
                                 "/model/layer_0/gate", "/optimizer/layer_0/core/m"));
  EXPECT_THAT(reader.tensor("/model/layer_0/core").shape, ElementsAre(2, 3, 4));
  EXPECT_EQ(reader.tensor("/model/layer_0/gate").dtype, DType::uint8);
  EXPECT_TRUE(reader.has_tensor("/data/ids"));
  EXPECT_FALSE(reader.has_tensor("/data"));
}

// A running job replaces best.h5 while this one is read.
TEST(CheckpointFile, IsReadToItsEndWhenAnotherGetsItsName) {
  TemporaryFolder folder;
  write_sample(folder / "best.h5", 0.5);
  const CheckpointReader reader(folder / "best.h5");
  const std::string before = reader.fingerprint();
  write_sample(folder / "best.h5", 2.5);
  EXPECT_EQ(reader.fingerprint(), before);
  EXPECT_EQ(reader.read_values<float>("/model/layer_0/core"), counting<float>(24, 0.5f));
  reader.verify();
}

TEST(CheckpointFile, ChecksumsTellTensorsApart) {
  TemporaryFolder folder;
  write_sample(folder / "a.h5", 1);
  write_sample(folder / "b.h5", 2);
  const CheckpointReader a(folder / "a.h5"), b(folder / "b.h5");
  EXPECT_EQ(a.tensor("/data/ids"), b.tensor("/data/ids"));
  EXPECT_NE(a.tensor("/model/layer_0/core"), b.tensor("/model/layer_0/core"));
}

TEST(CheckpointFile, EqualContentGivesEqualBytes) {
  TemporaryFolder folder;
  write_sample(folder / "a.h5");
  write_sample(folder / "b.h5");
  EXPECT_EQ(read_text(folder / "a.h5"), read_text(folder / "b.h5"));
}

TEST(CheckpointFile, SaysWhatDoesNotFit) {
  TemporaryFolder folder;
  write_sample(folder / "a.h5");
  const CheckpointReader reader(folder / "a.h5");
  std::vector<float> values(24);
  EXPECT_THAT(error_of([&] {
                reader.read("/model/layer_0/core", view(values, {4, 6}));
              }),
              HasSubstr("'/model/layer_0/core' has the shape (2, 3, 4), but (4, 6) is expected"));
  EXPECT_THAT(error_of([&] { reader.read_values<double>("/model/layer_0/core"); }),
              HasSubstr("is float32, but float64 is expected"));
  EXPECT_THAT(error_of([&] { reader.read_values<double>("/model/nothing"); }),
              HasSubstr("a.h5: has no tensor '/model/nothing'"));
  EXPECT_THAT(error_of([&] { reader.integer("/trainer", "epoch"); }), HasSubstr("no attribute 'epoch'"));
  EXPECT_NE(error_of([&] { reader.integer("/trainer", "loss"); }), "");
}

TEST(CheckpointFile, RefusesToWriteNonsense) {
  TemporaryFolder folder;
  CheckpointWriter writer(folder / "a.h5");
  std::vector<float> values(4);
  writer.tensor("/x", view(values, {4}));
  EXPECT_THAT(error_of([&] { writer.tensor("/x", view(values, {4})); }), HasSubstr("written twice"));
  EXPECT_THROW(writer.tensor("x", view(values, {4})), Error);
  EXPECT_THROW(writer.tensor("/y", Tensor()), Error);
  EXPECT_THROW(writer.tensor("/y", Tensor(nullptr, {4}, DType::float32, {DeviceKind::cuda, 0})), Error);
}

TEST(CheckpointFile, NothingIsLeftWithoutCommit) {
  TemporaryFolder folder;
  {
    CheckpointWriter writer(folder / "a.h5");
    fill_sample(writer);
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  EXPECT_THAT(error_of([&] { CheckpointWriter writer(folder / "missing/a.h5"); }),
              HasSubstr("No such file or directory"));
}

TEST(CheckpointFile, ManyLargeTensors) {
  TemporaryFolder folder;
  auto values = counting<float>(1 << 20);
  {
    CheckpointWriter writer(folder / "a.h5");
    for (int i = 0; i < 8; ++i) writer.tensor(fmt::format("/model/t{}", i), view(values, {1 << 20}));
    for (int i = 0; i < 300; ++i)
      writer.tensor(fmt::format("/model/block_{}/x", i), view(values, {16}), {{"role", "dense"}});
    writer.commit();
  }
  const CheckpointReader reader(folder / "a.h5");
  EXPECT_EQ(reader.tensors().size(), 308);
  reader.verify();
  EXPECT_EQ(reader.read_values<float>("/model/t7"), values);
}

}  // namespace
}  // namespace comera::test
