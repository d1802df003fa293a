#include "storage/input_file.h"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

namespace comera::storage {

namespace {

constexpr std::size_t buffer_bytes = std::size_t{64} << 10;
constexpr int gzip_only = 16 + MAX_WBITS;

}  // namespace

struct InputFile::State {
  explicit State(const std::filesystem::path& path)
      : descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC)), buffer(buffer_bytes) {
    if (descriptor < 0) throw ReadFailure(std::strerror(errno));
  }
  ~State() {
    if (compressed) inflateEnd(&stream);
    ::close(descriptor);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  void begin() {
    begun = true;
    fill();
    while (end < 2 && !at_end) fill();
    if (end < 2 || buffer[0] != 0x1f || buffer[1] != 0x8b) return;
    if (inflateInit2(&stream, gzip_only) != Z_OK) throw ReadFailure("no memory");
    compressed = within_member = true;
  }

  // Reads more bytes after the unused ones in the buffer.
  void fill() {
    if (place == end) place = end = 0;
    ssize_t got = 0;
    do got = ::read(descriptor, buffer.data() + end, buffer.size() - end);
    while (got < 0 && errno == EINTR);
    if (got < 0) throw ReadFailure(std::strerror(errno));
    at_end = got == 0;
    end += static_cast<std::size_t>(got);
    taken += got;
  }

  std::size_t copy(char* to, std::size_t most) {
    if (place == end && !at_end) fill();
    const std::size_t count = std::min(most, end - place);
    std::memcpy(to, buffer.data() + place, count);
    place += count;
    return count;
  }

  // Whether another member begins; zeros up to the end of the file do not count.
  bool begin_member() {
    while (true) {
      while (place < end && zeros && buffer[place] == 0) ++place;
      if (place < end) break;
      if (at_end) return false;
      fill();
    }
    if (inflateReset2(&stream, gzip_only) != Z_OK) throw ReadFailure("no memory");
    zeros = false;
    return within_member = true;
  }

  std::size_t inflate_some(char* to, std::size_t most) {
    stream.next_out = reinterpret_cast<Bytef*>(to);
    stream.avail_out = static_cast<uInt>(most);
    while (stream.avail_out > 0) {
      if (!within_member && !begin_member()) break;
      if (place == end && !at_end) fill();
      stream.next_in = buffer.data() + place;
      stream.avail_in = static_cast<uInt>(end - place);
      const int code = ::inflate(&stream, Z_NO_FLUSH);
      place = end - stream.avail_in;
      if (code == Z_STREAM_END) {
        within_member = false;
        zeros = true;
      } else if (code == Z_BUF_ERROR && at_end) {
        damage = "it ends too early";
        break;
      } else if (code != Z_OK && code != Z_BUF_ERROR) {
        damage = code == Z_MEM_ERROR ? "no memory" : stream.msg != nullptr ? stream.msg : "wrong data";
        break;
      }
    }
    return most - stream.avail_out;
  }

  std::size_t read(char* to, std::size_t most) {
    if (!begun) begin();
    if (!compressed) return copy(to, most);
    const std::size_t count = damage.empty() ? inflate_some(to, most) : 0;
    if (count == 0 && !damage.empty()) throw DamagedData(damage);
    return count;
  }

  int descriptor;
  std::vector<unsigned char> buffer;
  std::size_t place = 0, end = 0;  // of the unused part of the buffer
  std::int64_t taken = 0;          // bytes of the file
  bool begun = false, at_end = false, compressed = false, within_member = false;
  bool zeros = false;  // only zeros have come since the last member
  z_stream stream = {};
  std::string damage;
};

InputFile::InputFile(const std::filesystem::path& path) : state_(std::make_unique<State>(path)) {}
InputFile::~InputFile() = default;
InputFile::InputFile(InputFile&&) noexcept = default;

std::int64_t InputFile::used() const {
  return state_->taken - static_cast<std::int64_t>(state_->end - state_->place);
}

std::size_t InputFile::read(char* to, std::size_t most) { return state_->read(to, most); }

}  // namespace comera::storage
