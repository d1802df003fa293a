#include "data/seal.h"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "kernels/core/check.h"

namespace comera::data {
namespace {

constexpr std::string_view hdf5_signature = "\x89HDF\r\n\x1a\n";
constexpr std::size_t checksum_digits = 8;

struct Seal {
  std::int64_t version = 0;
  std::int64_t bytes = 0;
  std::uint32_t contents = 0;
};

std::uint32_t checksum(const char* data, std::size_t bytes, std::uint32_t continued = 0) {
  return static_cast<std::uint32_t>(crc32_z(continued, reinterpret_cast<const Bytef*>(data), bytes));
}

std::string magic_of(const SealKind& kind) { return fmt::format("comera {}\n", kind.what); }

std::string to_text(const Seal& seal, const SealKind& kind) {
  std::string text = fmt::format("{}version {}\nbytes {}\ncontents {:08x}\n", magic_of(kind), seal.version,
                                 seal.bytes, seal.contents);
  text.resize(seal_bytes - checksum_digits, '\0');
  return text + fmt::format("{:08x}", checksum(text.data(), text.size()));
}

[[noreturn]] void refuse(const std::filesystem::path& path, const SealKind& kind, const std::string& reason) {
  throw Error(fmt::format("{}: {}; {}", path.string(), reason, kind.advice));
}

[[noreturn]] void fail(const std::filesystem::path& path, const char* action) {
  const int reason = errno;
  throw Error(fmt::format("{}: could not {}: {}", path.string(), action, std::strerror(reason)));
}

std::string read_block(std::istream& stream, std::int64_t bytes) {
  std::string block(static_cast<std::size_t>(bytes), '\0');
  stream.read(block.data(), bytes);
  block.resize(static_cast<std::size_t>(stream.gcount()));
  return block;
}

// What is behind the seal; throws when the system could not read it.
Seal measure(std::istream& stream, const std::filesystem::path& path, std::int64_t version) {
  Seal seal{.version = version, .bytes = seal_bytes};
  std::vector<char> block(1 << 20);
  while (stream) {
    errno = 0;
    stream.read(block.data(), static_cast<std::streamsize>(block.size()));
    if (stream.bad()) fail(path, "read");
    seal.contents = checksum(block.data(), static_cast<std::size_t>(stream.gcount()), seal.contents);
    seal.bytes += stream.gcount();
  }
  return seal;
}

std::ifstream open(const std::filesystem::path& path) {
  std::error_code code;
  const auto status = std::filesystem::status(path, code);
  COMERA_CHECK(std::filesystem::exists(status), "{}: no such file", path.string());
  COMERA_CHECK(std::filesystem::is_regular_file(status), "{}: is not a regular file", path.string());
  errno = 0;
  std::ifstream stream(path, std::ios::binary);
  if (!stream) fail(path, "open the file");
  return stream;
}

// The number behind "version ", which stays where it is in every version.
std::int64_t version_of(std::string_view text) {
  constexpr std::string_view key = "version ";
  std::int64_t version = 0;
  if (text.starts_with(key)) std::from_chars(text.data() + key.size(), text.data() + text.size(), version);
  return version;
}

}  // namespace

FileStart start_of(const std::filesystem::path& path, const SealKind& kind) {
  std::error_code code;
  if (!std::filesystem::is_regular_file(path, code)) return FileStart::other;
  std::ifstream stream(path, std::ios::binary);
  const std::string block = read_block(stream, seal_bytes);
  if (block.starts_with(magic_of(kind))) return FileStart::seal;
  return block.starts_with(hdf5_signature) ? FileStart::hdf5 : FileStart::other;
}

void seal(const std::filesystem::path& path, const SealKind& kind) {
  std::ifstream stream = open(path);
  COMERA_CHECK(read_block(stream, seal_bytes).size() == seal_bytes, "{}: has no room for a seal",
               path.string());
  const std::string text = to_text(measure(stream, path, kind.version), kind);
  errno = 0;
  std::fstream out(path, std::ios::in | std::ios::out | std::ios::binary);
  if (!out.write(text.data(), static_cast<std::streamsize>(text.size())).flush()) fail(path, "write");
}

void check_seal(const std::filesystem::path& path, const SealKind& kind) {
  std::ifstream stream = open(path);
  const std::string block = read_block(stream, seal_bytes);
  const std::string magic = magic_of(kind);
  if (stream.bad()) fail(path, "read");
  if (block.empty()) refuse(path, kind, "is empty");
  if (block.starts_with(hdf5_signature))
    refuse(path, kind,
           fmt::format("is an HDF5 file without a {}'s seal: another program or an earlier version wrote it",
                       kind.what));
  if (!block.starts_with(magic.substr(0, block.size())))
    refuse(path, kind, fmt::format("is not a {} of comera", kind.what));
  if (block.size() < seal_bytes)
    refuse(path, kind, fmt::format("is truncated: only {} bytes are there", block.size()));
  if (const std::int64_t version = version_of(std::string_view(block).substr(magic.size()));
      version > kind.version)
    throw Error(
        fmt::format("{}: has version {} of the {} format, this program reads up to {}; use a newer one",
                    path.string(), version, kind.what, kind.version));
  Seal written;
  std::istringstream lines(block.substr(magic.size()));
  std::string word;
  lines >> word >> written.version >> word >> written.bytes >> word >> std::hex >> written.contents;
  // Writing it again must give the same bytes, the checksum among them.
  if (!lines || to_text(written, kind) != block)
    refuse(path, kind, "is damaged: the checksum of its seal is wrong");
  const Seal found = measure(stream, path, written.version);
  if (found.bytes < written.bytes)
    refuse(path, kind, fmt::format("is truncated: {} of {} bytes are there", found.bytes, written.bytes));
  if (found.bytes > written.bytes)
    refuse(path, kind,
           fmt::format("was changed after it was written: it has {} bytes instead of {}", found.bytes,
                       written.bytes));
  if (found.contents != written.contents)
    refuse(path, kind, "is damaged: the checksum of its contents is wrong");
}

}  // namespace comera::data
