#include "tests/qa/attack/mutants/gzip.h"

#include <zlib.h>

#include <algorithm>
#include <stdexcept>

namespace comera::attack {

namespace {

constexpr int gzip_window = 15 + 16;

Bytef* bytes_of(const std::string& text) { return reinterpret_cast<Bytef*>(const_cast<char*>(text.data())); }

// Takes a member from the beginning of `bytes`; whether it was whole.
bool take_member(std::string& bytes, std::string& text) {
  z_stream stream = {};
  if (inflateInit2(&stream, gzip_window) != Z_OK) throw std::runtime_error("zlib cannot be used");
  stream.next_in = bytes_of(bytes);
  stream.avail_in = static_cast<uInt>(bytes.size());
  int code = Z_OK;
  while (code == Z_OK) {
    char part[4096];
    stream.next_out = reinterpret_cast<Bytef*>(part);
    stream.avail_out = sizeof part;
    code = inflate(&stream, Z_NO_FLUSH);
    text.append(part, sizeof part - stream.avail_out);
  }
  bytes.erase(0, bytes.size() - stream.avail_in);
  inflateEnd(&stream);
  return code == Z_STREAM_END;
}

}  // namespace

std::string zipped(const std::string& text) {
  z_stream stream = {};
  if (deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, gzip_window, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::runtime_error("zlib cannot be used");
  std::string bytes(deflateBound(&stream, text.size()), '\0');
  stream.next_in = bytes_of(text);
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = bytes_of(bytes);
  stream.avail_out = static_cast<uInt>(bytes.size());
  deflate(&stream, Z_FINISH);
  bytes.resize(stream.total_out);
  deflateEnd(&stream);
  return bytes;
}

std::string zipped(const std::string& text, std::size_t members) {
  std::string bytes;
  std::size_t begin = 0;
  for (std::size_t i = 1; i <= members; ++i) {
    const std::size_t wanted = text.size() * i / members;
    const std::size_t line = wanted == 0 ? text.npos : text.find('\n', wanted - 1);
    const std::size_t end = i == members || line == text.npos ? text.size() : line + 1;
    bytes += zipped(text.substr(begin, end - begin));
    begin = end;
  }
  return bytes;
}

std::optional<std::string> unzipped(const std::string& bytes) {
  std::string rest = bytes, text;
  do {
    if (!take_member(rest, text)) return std::nullopt;
  } while (rest.find_first_not_of('\0') == 0);
  const bool zeros = std::ranges::all_of(rest, [](char c) { return c == '\0'; });
  return zeros ? std::optional(text) : std::nullopt;
}

}  // namespace comera::attack
