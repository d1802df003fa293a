#include "storage/seal.h"

#include <zlib.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>
#include <vector>

#include "kernels/core/check.h"
#include "storage/folder.h"

namespace comera::storage {
namespace {

constexpr std::string_view hdf5_signature = "\x89HDF\r\n\x1a\n";
constexpr std::int64_t checksum_digits = 8;

std::string magic_of(const SealKind& kind) { return fmt::format("comera {}\n", kind.what); }

// The number after "version ", whose position is the same in every version.
std::int64_t version_of(std::string_view text) {
  constexpr std::string_view key = "version ";
  std::int64_t version = 0;
  if (text.starts_with(key)) std::from_chars(text.data() + key.size(), text.data() + text.size(), version);
  return version;
}

// A shard seal's line about the rest of a file of that size.
std::string contents_of(const FileDescriptor& file, std::int64_t bytes) {
  return fmt::format("contents {:08x}", checksum(file, seal_bytes, bytes - seal_bytes));
}

}  // namespace

std::string to_text(const Seal& seal, const SealKind& kind) {
  std::string text =
      fmt::format("{}version {}\nbytes {}\n{}\n", magic_of(kind), seal.version, seal.bytes, seal.rest);
  text.resize(seal_bytes - checksum_digits, '\0');
  return text + fmt::format("{:08x}", checksum(text.data(), text.size()));
}

void refuse(const std::filesystem::path& path, const SealKind& kind, const std::string& reason) {
  throw Error(fmt::format("{}: {}{}{}", path.string(), reason, kind.advice.empty() ? "" : "; ", kind.advice));
}

namespace {

[[noreturn]] void refuse_kind(const std::filesystem::path& path, const SealKind& kind,
                              const std::string& reason) {
  SealKind other = kind;
  if (!kind.instead.empty()) other.advice = kind.instead;
  refuse(path, other, reason);
}

}  // namespace

SealedFile open_sealed(const std::filesystem::path& path, const SealKind& kind) {
  refuse_missing(path, "file");
  std::error_code code;
  const auto status = std::filesystem::status(path, code);
  COMERA_CHECK(std::filesystem::exists(status), "{}: {}", path.string(), code.message());
  COMERA_CHECK(std::filesystem::is_regular_file(status), "{}: is not a regular file", path.string());
  SealedFile opened{FileDescriptor::open_to_read(path), {}};
  const std::int64_t size = opened.file.size();
  std::string block(static_cast<std::size_t>(std::min(size, seal_bytes)), '\0');
  opened.file.read(0, block.data(), static_cast<std::int64_t>(block.size()));
  const std::string magic = magic_of(kind);
  if (block.empty()) refuse(path, kind, "is empty");
  if (block.starts_with(hdf5_signature))
    refuse_kind(
        path, kind,
        fmt::format("is an HDF5 file without a {}'s seal: another program or an earlier version wrote it",
                    kind.what));
  if (!block.starts_with(magic.substr(0, block.size())))
    refuse_kind(path, kind, fmt::format("is not a {} of comera", kind.what));
  if (size < seal_bytes) refuse(path, kind, fmt::format("is truncated: only {} bytes are there", size));
  if (const std::int64_t version = version_of(std::string_view(block).substr(magic.size()));
      version > kind.version)
    throw Error(
        fmt::format("{}: has version {} of the {} format, this program reads up to {}; use a newer one",
                    path.string(), version, kind.what, kind.version));
  Seal& seal = opened.seal;
  std::istringstream lines(block.substr(magic.size()));
  std::string word;
  lines >> word >> seal.version >> word >> seal.bytes;
  lines.ignore(1);
  std::getline(lines, seal.rest);
  // Rewriting it must give the same bytes, including the checksum.
  if (!lines || to_text(seal, kind) != block)
    refuse(path, kind, "is damaged: the checksum of its seal is wrong");
  if (size < seal.bytes)
    refuse(path, kind, fmt::format("is truncated: {} of {} bytes are there", size, seal.bytes));
  if (size > seal.bytes)
    refuse(path, kind,
           fmt::format("was changed after it was written: it has {} bytes instead of {}", size, seal.bytes));
  return opened;
}

FileStart start_of(const std::filesystem::path& path, const SealKind& kind) {
  std::error_code code;
  if (!std::filesystem::is_regular_file(path, code)) return FileStart::other;
  const std::string magic = magic_of(kind);
  std::string start(std::max(magic.size(), hdf5_signature.size()), '\0');
  std::ifstream(path, std::ios::binary).read(start.data(), static_cast<std::streamsize>(start.size()));
  if (start.starts_with(magic)) return FileStart::seal;
  return start.starts_with(hdf5_signature) ? FileStart::hdf5 : FileStart::other;
}

void seal(const std::filesystem::path& path, const SealKind& kind) {
  const FileDescriptor file = FileDescriptor::open_to_change(path);
  const std::int64_t bytes = file.size();
  COMERA_CHECK(bytes >= seal_bytes, "{}: has no room for a seal", path.string());
  file.write(0, to_text({kind.version, bytes, contents_of(file, bytes)}, kind));
}

void check_seal(const std::filesystem::path& path, const SealKind& kind) {
  const SealedFile sealed = open_sealed(path, kind);
  if (contents_of(sealed.file, sealed.seal.bytes) != sealed.seal.rest)
    refuse(path, kind, "is damaged: the checksum of its contents is wrong");
}

std::uint32_t checksum(const void* data, std::size_t bytes, std::uint32_t continued) {
  return static_cast<std::uint32_t>(crc32_z(continued, static_cast<const Bytef*>(data), bytes));
}

std::uint32_t checksum(const FileDescriptor& file, std::int64_t offset, std::int64_t bytes,
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

}  // namespace comera::storage
