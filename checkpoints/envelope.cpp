#include "checkpoints/envelope.h"

#include <algorithm>
#include <sstream>

#include "kernels/core/check.h"

namespace comera::checkpoint_detail {

namespace {

constexpr storage::SealKind kind = {"checkpoint", 1, "if it is a copy, copy it again",
                                    "give a checkpoint that comera saved, or the folder of a run"};

struct Manifest {
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
  std::uint32_t checksum = 0;
};

std::string to_text(const Manifest& manifest) {
  return fmt::format("manifest {} {} {:08x}", manifest.offset, manifest.bytes, manifest.checksum);
}

// The seal's entry for the manifest, which is at the end of a file of that size.
Manifest parse_place(const std::filesystem::path& path, const storage::Seal& seal) {
  Manifest manifest;
  std::istringstream line(seal.rest);
  std::string word;
  line >> word >> manifest.offset >> manifest.bytes >> std::hex >> manifest.checksum;
  if (to_text(manifest) != seal.rest || manifest.offset < storage::seal_bytes || manifest.bytes < 0 ||
      manifest.offset > seal.bytes || manifest.bytes != seal.bytes - manifest.offset)
    storage::refuse(path, kind, "is damaged: its seal puts the manifest outside of the file");
  return manifest;
}

std::string to_text(const std::vector<TensorRecord>& tensors, std::uint32_t structure) {
  std::string text = fmt::format("{:08x}\n", structure);
  for (const auto& tensor : tensors)
    text += fmt::format("{:08x} {} {} {}\n", tensor.checksum, tensor.offset, tensor.bytes, tensor.path);
  return text;
}

std::vector<TensorRecord> parse_manifest(const std::string& text, std::uint32_t& structure) {
  std::istringstream lines(text);
  lines >> std::hex >> structure;
  std::vector<TensorRecord> tensors;
  TensorRecord tensor;
  while (lines >> std::hex >> tensor.checksum >> std::dec >> tensor.offset >> tensor.bytes &&
         lines.ignore(1) && std::getline(lines, tensor.path))
    tensors.push_back(tensor);
  return tensors;
}

bool lie_in_order(const std::vector<TensorRecord>& tensors, std::int64_t end) {
  std::int64_t at = storage::seal_bytes;
  for (const auto& tensor : tensors) {
    if (tensor.bytes == 0) continue;
    if (tensor.bytes < 0 || tensor.offset < at || tensor.offset > end || tensor.bytes > end - tensor.offset)
      return false;
    at = tensor.offset + tensor.bytes;
  }
  return true;
}

// The checksum of [storage::seal_bytes, end) without the tensors, which are in order.
std::uint32_t structure_checksum(const storage::FileDescriptor& file,
                                 const std::vector<TensorRecord>& tensors, std::int64_t end) {
  std::uint32_t sum = 0;
  std::int64_t at = storage::seal_bytes;
  for (const auto& tensor : tensors) {
    if (tensor.bytes == 0) continue;
    sum = storage::checksum(file, at, tensor.offset - at, sum);
    at = tensor.offset + tensor.bytes;
  }
  return storage::checksum(file, at, end - at, sum);
}

}  // namespace

void refuse(const std::filesystem::path& path, const std::string& reason) {
  storage::refuse(path, kind, reason);
}

void seal(const storage::FileDescriptor& file, std::vector<TensorRecord> tensors) {
  std::ranges::sort(tensors, {}, &TensorRecord::offset);
  for (const auto& tensor : tensors)
    COMERA_CHECK(storage::checksum(file, tensor.offset, tensor.bytes) == tensor.checksum,
                 "the checkpoint's '{}' did not reach the file as it was written", tensor.path);
  const std::int64_t offset = file.size();
  const std::string text = to_text(tensors, structure_checksum(file, tensors, offset));
  const auto bytes = static_cast<std::int64_t>(text.size());
  file.write(offset, text);
  file.write(0, storage::to_text({kind.version, offset + bytes,
                                  to_text({offset, bytes, storage::checksum(text.data(), text.size())})},
                                 kind));
}

bool is_sealed(const std::filesystem::path& path) {
  return storage::start_of(path, kind) == storage::FileStart::seal;
}

std::vector<TensorRecord> open_sealed(const std::filesystem::path& path) {
  const auto [file, seal] = storage::open_sealed(path, kind);
  const Manifest place = parse_place(path, seal);
  std::string text(static_cast<std::size_t>(place.bytes), '\0');
  file.read(place.offset, text.data(), place.bytes);
  if (storage::checksum(text.data(), text.size()) != place.checksum)
    storage::refuse(path, kind, "is damaged: the checksum of its manifest is wrong");
  std::uint32_t structure = 0;
  std::vector<TensorRecord> tensors = parse_manifest(text, structure);
  // Rewriting it must give the same bytes.
  if (to_text(tensors, structure) != text || !lie_in_order(tensors, place.offset))
    storage::refuse(path, kind, "is damaged: its manifest is invalid");
  if (structure_checksum(file, tensors, place.offset) != structure)
    storage::refuse(path, kind, "is damaged: the checksum of its names, shapes and attributes is wrong");
  return tensors;
}

}  // namespace comera::checkpoint_detail
