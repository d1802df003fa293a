#include "storage/input_file.h"

#include <gmock/gmock.h>
#include <zlib.h>
#include <zstd.h>

#include "tests/support/temporary_folder.h"

namespace comera::storage {
namespace {

using testing::HasSubstr;

std::string compressed(const std::string& text) {
  z_stream stream = {};
  deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string bytes(deflateBound(&stream, text.size()) + 64, '\0');
  std::string copy = text;
  stream.next_in = reinterpret_cast<Bytef*>(copy.data());
  stream.avail_in = static_cast<uInt>(copy.size());
  stream.next_out = reinterpret_cast<Bytef*>(bytes.data());
  stream.avail_out = static_cast<uInt>(bytes.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  bytes.resize(stream.total_out);
  deflateEnd(&stream);
  return bytes;
}

struct Read {
  std::string text, damage;
};

Read read_all(const std::filesystem::path& path, std::size_t at_once = 1000) {
  InputFile file(path);
  Read all;
  std::string part(at_once, '\0');
  try {
    while (const std::size_t count = file.read(part.data(), part.size())) all.text.append(part, 0, count);
    EXPECT_EQ(file.used(), static_cast<std::int64_t>(std::filesystem::file_size(path)));
  } catch (const DamagedData& damage) {
    all.damage = damage.what();
  }
  return all;
}

std::string long_text(int seed) {
  std::string text;
  for (int i = 0; i < 20000; ++i)
    text += std::to_string(i * 7919 % (1000 + seed)) + (i % 9 == 0 ? "\n" : " ");
  return text;
}

TEST(InputFile, ReadsPlainFiles) {
  const test::TemporaryFolder folder;
  for (const std::string& text : {std::string(), std::string("\x1f"), std::string("\x1f\x20"), long_text(0)})
    for (const std::size_t at_once : {1u, 1000u, 1u << 20}) {
      if (at_once == 1 && text.size() > 10) continue;
      EXPECT_EQ(read_all(folder.write("plain", text), at_once).text, text);
    }
  EXPECT_THAT(test::error_of([&] { InputFile(folder / "none"); }), HasSubstr("No such file"));
}

TEST(InputFile, ReadsEveryMember) {
  const test::TemporaryFolder folder;
  const std::string a = long_text(1), b = long_text(2),
                    members = compressed(a) + compressed("") + compressed(b);
  for (const std::string& zeros : {std::string(), std::string(1, '\0'), std::string(200000, '\0')}) {
    const Read all = read_all(folder.write("several.gz", members + zeros));
    EXPECT_EQ(all.text, a + b);
    EXPECT_EQ(all.damage, "");
  }
}

// What stands before the damage is given, and nothing is dropped in silence.
TEST(InputFile, SaysWhatIsWrong) {
  const test::TemporaryFolder folder;
  const std::string a = long_text(1), b = long_text(2), first = compressed(a), second = compressed(b);
  for (std::size_t at = 0; at < 4; ++at) {
    std::string changed = second;
    changed[at] ^= 0x10;
    const Read all = read_all(folder.write("header.gz", first + changed));
    if (at == 3) continue;  // flags: the rest is read otherwise
    EXPECT_EQ(all.text, a) << at;
    EXPECT_NE(all.damage, "") << at;
  }
  const Read cut = read_all(folder.write("cut.gz", first + second.substr(0, second.size() - 3)));
  EXPECT_EQ(cut.text, a + b);
  EXPECT_EQ(cut.damage, "it ends too early");
  std::string wrong = first;
  wrong[wrong.size() - 6] ^= 1;
  EXPECT_EQ(read_all(folder.write("sum.gz", wrong)).damage, "incorrect data check");
  const Read behind = read_all(folder.write("behind.gz", first + "rubbish"));
  EXPECT_EQ(behind.text, a);
  EXPECT_EQ(behind.damage, "incorrect header check");
  EXPECT_NE(read_all(folder.write("zeros.gz", first + std::string(10, '\0') + "x")).damage, "");
}

// With its checksum, as the program zstd writes it.
std::string frame_of(const std::string& text, int window_log = 0) {
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, 0);
  if (window_log > 0) ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, window_log);
  std::string bytes(ZSTD_compressBound(text.size()), '\0');
  bytes.resize(ZSTD_compress2(context, bytes.data(), bytes.size(), text.data(), text.size()));
  ZSTD_freeCCtx(context);
  return bytes;
}

TEST(InputFile, ReadsEveryFrameOfZstandard) {
  const test::TemporaryFolder folder;
  const std::string a = long_text(1), b = long_text(2), skippable("\x50\x2A\x4D\x18\x03\0\0\0abc", 11);
  for (const std::size_t at_once : {7u, 1000u, 1u << 20}) {
    const Read all =
        read_all(folder.write("a.zst", frame_of(a) + frame_of("") + skippable + frame_of(b)), at_once);
    EXPECT_EQ(all.text, a + b);
    EXPECT_EQ(all.damage, "");
  }
  EXPECT_EQ(read_all(folder.write("first.zst", skippable + frame_of(a))).text, a);
  EXPECT_EQ(read_all(folder.write("long.zst", frame_of(a, 30))).text, a);
}

TEST(InputFile, SaysWhatIsWrongWithZstandard) {
  const test::TemporaryFolder folder;
  const std::string a = long_text(1), first = frame_of(a), second = frame_of(long_text(2));
  for (const std::size_t left : {second.size() - 1, second.size() / 2, std::size_t{3}}) {
    const Read cut = read_all(folder.write("cut.zst", first + second.substr(0, left)));
    EXPECT_TRUE(cut.text.starts_with(a));
    EXPECT_EQ(cut.damage, "it ends too early") << left;
  }
  std::string changed = first;
  changed.back() ^= 1;
  EXPECT_THAT(read_all(folder.write("sum.zst", changed)).damage, HasSubstr("checksum"));
  EXPECT_THAT(read_all(folder.write("more.zst", first + "more")).damage, HasSubstr("Unknown frame"));
}

}  // namespace
}  // namespace comera::storage
