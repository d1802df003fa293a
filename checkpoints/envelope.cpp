#include "checkpoints/envelope.h"

#include <zlib.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <sstream>
#include <string_view>

#include "kernels/core/check.h"

namespace comera::checkpoint_detail {

namespace {

constexpr std::string_view magic = "comera checkpoint\n";
constexpr std::string_view hdf5_signature = "\x89HDF\r\n\x1a\n";
constexpr std::int64_t checksum_digits = 8;

struct Header {
  std::int64_t version = format_version;
  std::int64_t file_bytes = 0;
  std::int64_t manifest_offset = 0;
  std::int64_t manifest_bytes = 0;
  std::uint32_t manifest_checksum = 0;
};

std::string to_text(const Header& header) {
  std::string text =
      fmt::format("{}version {}\nbytes {}\nmanifest {} {} {:08x}\n", magic, header.version, header.file_bytes,
                  header.manifest_offset, header.manifest_bytes, header.manifest_checksum);
  text.resize(header_bytes - checksum_digits, '\0');
  return text + fmt::format("{:08x}", checksum(text.data(), text.size()));
}

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& reason) {
  throw Error(fmt::format("{}: {}", path.string(), reason));
}

// A file without the magic: which kind of foreign or broken file is it?
[[noreturn]] void refuse_foreign(const std::filesystem::path& path, std::string_view start) {
  if (start.starts_with(hdf5_signature)) refuse(path, "is an HDF5 file but not a checkpoint of comera");
  if (magic.starts_with(start))
    refuse(path, fmt::format("is truncated: only {} bytes are there", start.size()));
  refuse(path, "is not a checkpoint of comera");
}

// The number after `key` at the start of a line. Before the header's checksum is known to be right this reads
// the version only, which stays where it is in every version.
std::int64_t version_of(std::string_view header) {
  constexpr std::string_view key = "version ";
  std::int64_t version = 0;
  header.remove_prefix(magic.size());
  if (header.starts_with(key))
    std::from_chars(header.data() + key.size(), header.data() + header.size(), version);
  return version;
}

Header read_header(const std::filesystem::path& path, const data::FileDescriptor& file) {
  const std::int64_t size = file.size();
  if (size == 0) refuse(path, "is empty");
  std::string text(static_cast<std::size_t>(std::min(size, header_bytes)), '\0');
  file.read(0, text.data(), static_cast<std::int64_t>(text.size()));
  if (!text.starts_with(magic)) refuse_foreign(path, text);
  if (size < header_bytes) refuse(path, fmt::format("is truncated: only {} bytes are there", size));
  if (const std::int64_t version = version_of(text); version > format_version)
    refuse(path,
           fmt::format("has format version {}, but this program reads versions up to {}; use a newer one",
                       version, format_version));
  Header header;
  std::istringstream lines(text.substr(magic.size()));
  std::string word;
  lines >> word >> header.version >> word >> header.file_bytes >> word >> header.manifest_offset >>
      header.manifest_bytes >> std::hex >> header.manifest_checksum;
  // Writing it again must give the same bytes, the checksum among them.
  if (!lines || to_text(header) != text) refuse(path, "is damaged: the checksum of its header is wrong");
  if (size < header.file_bytes)
    refuse(path, fmt::format("is truncated: {} of {} bytes are there", size, header.file_bytes));
  if (size > header.file_bytes)
    refuse(path, fmt::format("was changed after it was written: it has {} bytes instead of {}", size,
                             header.file_bytes));
  if (header.manifest_offset < header_bytes || header.manifest_bytes < 0 || header.manifest_offset > size ||
      header.manifest_bytes != size - header.manifest_offset)
    refuse(path, "is damaged: its header puts the manifest outside of the file");
  return header;
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
  std::int64_t at = header_bytes;
  for (const auto& tensor : tensors) {
    if (tensor.bytes == 0) continue;
    if (tensor.bytes < 0 || tensor.offset < at || tensor.offset > end || tensor.bytes > end - tensor.offset)
      return false;
    at = tensor.offset + tensor.bytes;
  }
  return true;
}

// The checksum of [header_bytes, end) without the tensors, which are in order.
std::uint32_t structure_checksum(const data::FileDescriptor& file, const std::vector<TensorRecord>& tensors,
                                 std::int64_t end) {
  std::uint32_t sum = 0;
  std::int64_t at = header_bytes;
  for (const auto& tensor : tensors) {
    if (tensor.bytes == 0) continue;
    sum = checksum(file, at, tensor.offset - at, sum);
    at = tensor.offset + tensor.bytes;
  }
  return checksum(file, at, end - at, sum);
}

}  // namespace

std::uint32_t checksum(const void* data, std::size_t bytes, std::uint32_t continued) {
  return static_cast<std::uint32_t>(crc32_z(continued, static_cast<const Bytef*>(data), bytes));
}

std::uint32_t checksum(const data::FileDescriptor& file, std::int64_t offset, std::int64_t bytes,
                       std::uint32_t continued) {
  std::vector<char> block(static_cast<std::size_t>(std::min<std::int64_t>(bytes, 1 << 20)));
  while (bytes > 0) {
    const std::int64_t count = std::min<std::int64_t>(bytes, static_cast<std::int64_t>(block.size()));
    file.read(offset, block.data(), count);
    continued = checksum(block.data(), static_cast<std::size_t>(count), continued);
    offset += count;
    bytes -= count;
  }
  return continued;
}

void seal(const data::FileDescriptor& file, std::vector<TensorRecord> tensors) {
  std::ranges::sort(tensors, {}, &TensorRecord::offset);
  for (const auto& tensor : tensors)
    COMERA_CHECK(checksum(file, tensor.offset, tensor.bytes) == tensor.checksum,
                 "the checkpoint's '{}' did not reach the file as it was written", tensor.path);
  Header header;
  header.manifest_offset = file.size();
  const std::string manifest = to_text(tensors, structure_checksum(file, tensors, header.manifest_offset));
  header.manifest_bytes = static_cast<std::int64_t>(manifest.size());
  header.manifest_checksum = checksum(manifest.data(), manifest.size());
  header.file_bytes = header.manifest_offset + header.manifest_bytes;
  file.write(header.manifest_offset, manifest);
  file.write(0, to_text(header));
}

std::vector<TensorRecord> open_sealed(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) refuse(path, "no such file");
  if (!std::filesystem::is_regular_file(path)) refuse(path, "is not a regular file");
  const data::FileDescriptor file = data::FileDescriptor::open_to_read(path);
  const Header header = read_header(path, file);
  std::string manifest(static_cast<std::size_t>(header.manifest_bytes), '\0');
  file.read(header.manifest_offset, manifest.data(), header.manifest_bytes);
  if (checksum(manifest.data(), manifest.size()) != header.manifest_checksum)
    refuse(path, "is damaged: the checksum of its manifest is wrong");
  std::uint32_t structure = 0;
  std::vector<TensorRecord> tensors = parse_manifest(manifest, structure);
  // Writing it again must give the same bytes.
  if (to_text(tensors, structure) != manifest || !lie_in_order(tensors, header.manifest_offset))
    refuse(path, "is damaged: its manifest makes no sense");
  if (structure_checksum(file, tensors, header.manifest_offset) != structure)
    refuse(path, "is damaged: the checksum of its names, shapes and attributes is wrong");
  return tensors;
}

}  // namespace comera::checkpoint_detail
