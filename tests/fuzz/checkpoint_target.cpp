#include <algorithm>
#include <filesystem>

#include "checkpoints/checkpoint_directory.h"
#include "checkpoints/envelope.h"
#include "storage/hdf5.h"
#include "tests/fuzz/described_file.h"
#include "tests/fuzz/target.h"

namespace comera::fuzz {
namespace {

using storage::seal_bytes;

// Opens the scratch file, verifies it and reads everything in it.
void read_all() {
  refuses(scratch_file(), [] {
    const CheckpointReader reader(scratch_file());
    for (const std::string object : {"/trainer", "/recipe", "/data", "/"})
      refuses(scratch_file(), [&] { reader.attributes(object); });
    refuses(scratch_file(), [&] { reader.integer("/trainer", "step"); });
    refuses(scratch_file(), [&] { reader.number("/trainer", "loss"); });
    refuses(scratch_file(), [&] { reader.text("/recipe", "toml"); });
    refuses(scratch_file(), [&] { reader.list("/trainer", "steps_of_phase"); });
    const bool whole = !refuses(scratch_file(), [&] { reader.verify(); });
    for (const CheckpointTensor& tensor : reader.tensors()) {
      refuses(scratch_file(), [&] { reader.attributes(tensor.path); });
      const bool refused = refuses(scratch_file(), [&] {
        if (tensor.dtype == DType::float32) reader.read_values<float>(tensor.path);
        if (tensor.dtype == DType::float64) reader.read_values<double>(tensor.path);
        if (tensor.dtype == DType::int64) reader.read_values<std::int64_t>(tensor.path);
        if (tensor.dtype == DType::int32) reader.read_values<std::int32_t>(tensor.path);
        if (tensor.dtype == DType::uint8) reader.read_values<std::uint8_t>(tensor.path);
      });
      static_cast<void>(refused && whole);
    }
  });
}

void run_file(Bytes input) {
  write_scratch(text_of(input));
  read_all();
}

std::string small_checkpoint() {
  CheckpointWriter writer(scratch_file());
  std::vector<float> core = {1, 2, 3, 4};
  std::vector<double> moment = {0.5, 0.25};
  writer.tensor("/model/core", Tensor(core.data(), {2, 2}, DType::float32), {{"role", "core"}});
  writer.tensor("/optimizer/core/m", Tensor(moment.data(), {2}, DType::float64));
  writer.attributes("/trainer", {{"step", std::int64_t{12}}, {"loss", 0.1}});
  writer.attributes("/recipe", {{"toml", "[model]\nlayers = 2\n"}});
  writer.commit();
  return read_scratch();
}

std::vector<std::string> file_seeds() {
  const std::string whole = small_checkpoint();
  return {whole, whole.substr(0, 700), whole.substr(512), whole.substr(0, 500)};
}

std::uint32_t checksum_of(const std::string& text, std::size_t begin, std::size_t bytes) {
  return storage::checksum(text.data() + begin, bytes);
}

// Gives changed bytes a matching header: after HDF5's part, which stays a valid HDF5 file, comes the changed
// manifest, with a matching checksum or another. Checksums of what HDF5 reads are never repaired: that would
// test HDF5's own parser (docs/developer/testing.md).
std::string mend_file(const std::string& input, std::uint32_t random) {
  static const std::string whole = small_checkpoint();
  static const std::size_t manifest_at = [] {
    std::size_t at = whole.rfind(" /optimizer/core/m\n");
    at = whole.rfind(" /model/core\n", at);  // records are in the order of their positions
    at = whole.rfind('\n', at);              // the line before: the structure's checksum
    return at - 8;
  }();
  std::string manifest = input.size() > manifest_at ? input.substr(manifest_at) : input.substr(0, 300);
  std::string head = whole.substr(0, manifest_at);
  std::int64_t offset = static_cast<std::int64_t>(manifest_at);
  std::int64_t bytes = static_cast<std::int64_t>(manifest.size());
  std::int64_t file_bytes = offset + bytes;
  if (random % 16 == 1) offset = -offset;
  if (random % 16 == 2) bytes = -1;
  if (random % 16 == 3) offset = std::int64_t{1} << 62;
  if (random % 16 == 4) bytes += 100;
  if (random % 16 == 5) file_bytes -= 1;
  if (random % 16 == 6) offset = 100;
  if (random % 16 == 7) bytes = INT64_MAX;
  std::string header = fmt::format("comera checkpoint\nversion 1\nbytes {}\nmanifest {} {} {:08x}\n",
                                   file_bytes, offset, bytes, checksum_of(manifest, 0, manifest.size()));
  header.resize(seal_bytes - 8, '\0');
  header += fmt::format("{:08x}", checksum_of(header, 0, header.size()));
  return header + head.substr(seal_bytes) + manifest;
}

const Vocabulary names = {{"/model/core", "/model/gate", "/optimizer/core/m", "/trainer", "/recipe", "/data"},
                          {"step", "loss", "toml", "steps_of_phase", "role", "ranks", "modes"}};

// A valid HDF5 file with matching checksums, whose objects and list of tensors are determined by the bytes.
void run_contents(Bytes input) {
  Choices choices(input);
  const std::uint8_t extra = choices.byte();
  std::vector<checkpoint_detail::TensorRecord> records;
  {
    DescribedFile described(scratch_file());
    while (choices.left()) described.add(choices, names);
    for (const auto& place : described.contiguous())
      records.push_back({place.path, place.offset, place.bytes, 0});
  }
  {
    const storage::FileDescriptor file = storage::FileDescriptor::open_to_change(scratch_file());
    for (auto& record : records)
      if (record.offset + record.bytes <= file.size())
        record.checksum = storage::checksum(file, record.offset, record.bytes);
    std::erase_if(records, [&](const auto& record) { return record.offset + record.bytes > file.size(); });
    if (extra & 1) records.push_back({"/absent", 0, 0, 0});
    if (extra & 2) records.push_back({"/trainer", 0, 0, 0});
    if (extra & 4 && !records.empty()) records.push_back({records[0].path, 0, 0, 0});
    if (extra & 8 && !records.empty()) records[0].path = records.back().path;
    if (extra & 16) records.push_back({"/model/gate", 0, 0, 0});
    checkpoint_detail::seal(file, records);
  }
  read_all();
}

std::vector<std::string> content_seeds() {
  using namespace std::string_literals;
  return {"\x00"s, "\x00\x04\x00\x02\x00\x02\x05\x06"s,
          "\x00\x07\x03\x04\x00\x03\x00\x02\x01\x02\x80\x00\x00\x07"s,
          "\x00\x04\x00\x02\x03\x02\x02\x03\x01\x01\x01\x01\x01\x01"s,
          "\x11\x04\x01\x00\x04\x03\x01\x02\x03"s};
}

}  // namespace

const Target checkpoint_target = {"checkpoint", run_file, mend_file, file_seeds};
const Target checkpoint_contents_target = {"checkpoint_contents", run_contents, nullptr, content_seeds};

}  // namespace comera::fuzz
