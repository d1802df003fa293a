#include <filesystem>

#include "data/shard.h"
#include "tests/fuzz/described_file.h"
#include "tests/fuzz/target.h"

namespace comera::fuzz {
namespace {

// Opens the scratch file and reads everything; accepted content must be consistent.
void read_all() {
  refuses(scratch_file(), [] {
    const data::ShardReader shard(scratch_file());
    if (shard.offsets().front() != 0 || shard.offsets().back() != shard.tokens())
      broken("offsets do not span the tokens");
    std::vector<std::int32_t> ids(static_cast<std::size_t>(shard.tokens()));
    shard.read_tokens(0, shard.tokens(), ids.data());
    for (const std::int32_t id : ids)
      if (id < 0 || id >= shard.info().vocabulary) broken("a token id is out of range");
    if (shard.info().segment_ids) {
      shard.read_segment_ids(0, shard.tokens(), ids.data());
      for (const std::int32_t id : ids)
        if (id < 0 || id >= shard.types()) broken("a segment id is out of range");
    }
    if (shard.info().labels && shard.labels().size() != static_cast<std::size_t>(shard.documents()))
      broken("labels are missing");
  });
}

// The file's bytes unchanged: content rejected by the seal never reaches HDF5.
void run_file(Bytes input) {
  write_scratch(text_of(input));
  read_all();
}

std::string small_shard(bool more) {
  const auto folder = std::filesystem::path(scratch_file()).parent_path() / "shards";
  std::filesystem::create_directories(folder);
  data::ShardInfo info;
  info.tokenizer_hash = "abc";
  info.vocabulary = 100;
  info.split = "train";
  info.labels = info.segment_ids = more;
  data::ShardWriter writer(folder, info, 1000);
  const std::vector<std::int32_t> types = {0, 1, 1};
  const std::span<const std::int32_t> segments = more ? std::span(types) : std::span<const std::int32_t>();
  writer.add(std::vector<std::int32_t>{5, 6, 7}, segments, 1);
  writer.add(std::vector<std::int32_t>{8, 9, 99}, segments, 0);
  writer.finish();
  std::filesystem::rename(folder / "train-00000.h5", scratch_file());
  return read_scratch();
}

std::vector<std::string> file_seeds() {
  // The values come in chunks of 64 KiB; a fuzzer benefits more from the first, structured part.
  const std::string one = small_shard(false);
  return {one.substr(0, 4096), one.substr(0, 512), one.substr(512, 2048), "comera shard\nversion 2\n"};
}

// Gives changed bytes a matching seal, or a part of one. Never so that HDF5 would get anything it did not
// write: that would test its own parser (docs/developer/testing.md).
std::string mend_file(const std::string& input, std::uint32_t random) {
  if (input.size() < storage::seal_bytes) return input;
  std::string file = input;
  if (random % 2 == 0)
    file.resize(storage::seal_bytes);  // nothing after the seal
  else
    std::fill(file.begin() + storage::seal_bytes, file.end(), '\0');
  write_scratch(file);
  storage::seal(scratch_file(), data::shard_seal);
  return read_scratch();
}

const Vocabulary names = {{"/tokens", "/document_offsets", "/segment_ids", "/labels", "/other"},
                          {"format", "version", "tokenizer_hash", "vocabulary", "special_ids", "split",
                           "documents", "tokens", "index", "shards"}};

// A valid HDF5 file with a matching seal, whose shard objects are determined by the bytes.
void run_contents(Bytes input) {
  Choices choices(input);
  const std::uint8_t absent = choices.byte();
  {
    DescribedFile described(scratch_file());
    while (choices.left()) described.add(choices, names);
  }
  {
    storage::hdf5::File file = storage::hdf5::File::modify(scratch_file());
    const auto text = [&](const char* name, const char* value) {
      if (!file.has_attribute("/", name)) file.set_attribute("/", name, value);
    };
    const auto number = [&](const char* name, std::int64_t value) {
      if (!file.has_attribute("/", name)) file.set_attribute("/", name, value);
    };
    if (!(absent & 1)) text("format", data::shard_format);
    if (!(absent & 2)) number("version", data::shard_version);
    text("tokenizer_hash", "abc");
    text("split", "train");
    number("vocabulary", 100);
    number("documents", 2);
    number("tokens", 4);
    if (!file.has_attribute("/", "special_ids"))
      file.set_attribute("/", "special_ids", std::vector<std::int64_t>{0, 1, 2, 3, 4});
    if (!(absent & 4) && lacks(file, "document_offsets"))
      file.write("document_offsets", std::vector<std::int64_t>{0, 2, 4});
    if (!(absent & 8) && lacks(file, "tokens")) file.write("tokens", std::vector<std::int32_t>{5, 6, 7, 8});
    file.close();
  }
  storage::seal(scratch_file(), data::shard_seal);
  read_all();
}

std::vector<std::string> content_seeds() {
  using namespace std::string_literals;
  return {"\x00"s,
          "\x00\x04\x02\x04\x00\x04\x00\x01\x01\x00"s,
          "\x00\x04\x03\x00\x00\x02\x00\x01"s,
          "\x00\x00\x00\x06\x00\xd1"s,
          "\x00\x04\x01\x01\x04\x03\x00\x02\x04"s,
          "\x00\x00\x00\x06\x00\xe0\x7f\xff\xff\xff\xff\xff\xff\xff"s};
}

}  // namespace

const Target shard_target = {"shard", run_file, mend_file, file_seeds};
const Target shard_contents_target = {"shard_contents", run_contents, nullptr, content_seeds};

}  // namespace comera::fuzz
