// Every kind of damage is refused by the file's name and the reason, or changes nothing.

#include <gmock/gmock.h>
#include <unistd.h>

#include "storage/hdf5.h"
#include "storage/seal.h"
#include "tests/checkpoints/sample.h"

namespace comera::test {
namespace {

using testing::HasSubstr;

class CheckpointDamage : public testing::Test {
 protected:
  CheckpointDamage() {
    write_sample(folder / "good.h5");
    bytes = read_text(folder / "good.h5");
  }
  // The reason for refusing a file of that content.
  std::string reason(std::string_view content) {
    const auto path = folder.write("bad.h5", content);
    std::string message = error_of([&] { content_of(path); });
    EXPECT_THAT(message, HasSubstr("bad.h5: "));
    return message;
  }

  TemporaryFolder folder;
  std::string bytes;
};

TEST_F(CheckpointDamage, TruncatedAnywhere) {
  for (std::size_t length = 1; length < bytes.size(); length += length < 600 ? 1 : 97)
    EXPECT_THAT(reason(std::string_view(bytes).substr(0, length)), HasSubstr("truncated")) << length;
  EXPECT_THAT(reason(std::string_view(bytes).substr(0, bytes.size() - 1)), HasSubstr("truncated"));
  EXPECT_THAT(reason(std::string_view(bytes).substr(0, bytes.size() - 1)), HasSubstr("copy it again"));
}

TEST_F(CheckpointDamage, AFlippedBitAnywhere) {
  // 100,000 of the bytes are the recipe's text: one in 37 of those will do.
  const std::size_t text = bytes.find(std::string(1000, 'x'));
  int refused = 0, tried = 0;
  const auto path = folder / "flipped.h5";
  folder.write("flipped.h5", bytes);
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  const auto put = [&](std::size_t at, char byte) {
    file.seekp(static_cast<std::streamoff>(at));
    file.put(byte);
    file.flush();
  };
  const std::string whole = content_of(path);
  for (std::size_t at = 0; at<bytes.size(); at += at> text && at < text + 99000 ? 37 : 1) {
    put(at, static_cast<char>(bytes[at] ^ (1 << (at * 7 % 8))));
    ++tried;
    try {
      EXPECT_EQ(content_of(path), whole) << "a flip at " << at << " was not noticed";
    } catch (const Error& error) {
      ++refused;
    }
    put(at, bytes[at]);
  }
  EXPECT_EQ(refused, tried);
  EXPECT_EQ(content_of(path), whole);
}

TEST_F(CheckpointDamage, TensorsAreNamed) {
  std::vector<float> values = counting<float>(24);
  const std::size_t at = bytes.find(std::string(reinterpret_cast<const char*>(values.data()), 96));
  ASSERT_NE(at, bytes.npos);
  bytes[at + 50] ^= 4;
  EXPECT_THAT(reason(bytes), HasSubstr("damaged: the checksum of '/model/layer_0/core' is wrong"));
  EXPECT_THAT(error_of([&] { CheckpointReader(folder / "bad.h5").verify(); }),
              HasSubstr("'/model/layer_0/core'"));
}

TEST_F(CheckpointDamage, BytesAddedOrZeroed) {
  EXPECT_THAT(reason(bytes + "x"), HasSubstr("changed after it was written"));
  std::string zeroed = bytes;
  zeroed.replace(4096, 512, 512, '\0');
  EXPECT_NE(reason(zeroed), "");
  EXPECT_THAT(reason(bytes.substr(0, 700) + std::string(bytes.size() - 700, '\0')), HasSubstr("damaged"));
}

TEST_F(CheckpointDamage, OtherFiles) {
  EXPECT_THAT(reason(""), HasSubstr("is empty"));
  EXPECT_THAT(reason("layers = 3\n"), HasSubstr("is not a checkpoint of comera"));
  EXPECT_THAT(reason(std::string(5000, '\0')), HasSubstr("is not a checkpoint of comera"));
  {
    storage::hdf5::File file = storage::hdf5::File::create(folder / "foreign.h5");
    file.write("x", counting<float>(10));
    file.close();
  }
  EXPECT_THAT(error_of([&] { CheckpointReader reader(folder / "foreign.h5"); }),
              HasSubstr("foreign.h5: is an HDF5 file without a checkpoint's seal"));
  EXPECT_THAT(error_of([&] { CheckpointReader reader(folder / "absent.h5"); }), HasSubstr("no such file"));
  EXPECT_THAT(error_of([&] { CheckpointReader reader(folder.path()); }), HasSubstr("not a regular file"));
}

TEST_F(CheckpointDamage, TheSealIsAsDocumented) {
  // The empty tensor is the manifest's first one; before it comes the checksum of the structure.
  const std::size_t manifest = bytes.rfind('\n', bytes.find(" /data/none\n")) - 8;
  std::string seal = fmt::format("comera checkpoint\nversion 1\nbytes {}\nmanifest {} {} {:08x}\n",
                                 bytes.size(), manifest, bytes.size() - manifest,
                                 storage::checksum(bytes.data() + manifest, bytes.size() - manifest));
  seal.resize(504);
  seal += fmt::format("{:08x}", storage::checksum(seal.data(), 504));
  EXPECT_EQ(bytes.substr(0, 512), seal);
}

TEST_F(CheckpointDamage, ANewerVersion) {
  const auto at = bytes.find("version 1");
  EXPECT_THAT(reason(bytes.replace(at, 9, "version 7")),
              HasSubstr("has version 7 of the checkpoint format, this program reads up to 1"));
}

TEST_F(CheckpointDamage, ChangedByAnotherProgram) {
  // A consistent structure still differs from the saved one.
  EXPECT_THAT(reason(bytes.replace(bytes.find("early"), 5, "eArly")),
              HasSubstr("the checksum of its names, shapes and attributes is wrong"));
}

}  // namespace
}  // namespace comera::test
