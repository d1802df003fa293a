#include <zlib.h>

#include "storage/compression/decoder.h"
#include "storage/input_file.h"

namespace comera::storage {

namespace {

constexpr int gzip_only = 16 + MAX_WBITS;

class GzipDecoder final : public Decoder {
 public:
  GzipDecoder() {
    if (inflateInit2(&stream_, gzip_only) != Z_OK) throw ReadFailure("no memory");
  }
  ~GzipDecoder() override { inflateEnd(&stream_); }
  GzipDecoder(const GzipDecoder&) = delete;
  GzipDecoder& operator=(const GzipDecoder&) = delete;

  std::size_t decode(FileBuffer& from, char* to, std::size_t most, std::string& damage) override {
    stream_.next_out = reinterpret_cast<Bytef*>(to);
    stream_.avail_out = static_cast<uInt>(most);
    while (stream_.avail_out > 0) {
      if (!within_member_ && !begin_member(from)) break;
      if (from.bytes().empty()) from.fill();
      const std::string_view bytes = from.bytes();
      stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
      stream_.avail_in = static_cast<uInt>(bytes.size());
      const int code = ::inflate(&stream_, Z_NO_FLUSH);
      from.consume(bytes.size() - stream_.avail_in);
      if (code == Z_STREAM_END) {
        within_member_ = false;
        zeros_ = true;
      } else if (code == Z_BUF_ERROR && from.at_end()) {
        damage = "it ends too early";
        break;
      } else if (code != Z_OK && code != Z_BUF_ERROR) {
        damage = code == Z_MEM_ERROR ? "no memory" : stream_.msg != nullptr ? stream_.msg : "wrong data";
        break;
      }
    }
    return most - stream_.avail_out;
  }

 private:
  // Whether another member begins; zeros up to the end of the file do not count.
  bool begin_member(FileBuffer& from) {
    while (true) {
      while (zeros_ && from.bytes().starts_with('\0')) from.consume(1);
      if (!from.bytes().empty()) break;
      if (from.at_end()) return false;
      from.fill();
    }
    if (inflateReset2(&stream_, gzip_only) != Z_OK) throw ReadFailure("no memory");
    zeros_ = false;
    return within_member_ = true;
  }

  z_stream stream_ = {};
  bool within_member_ = true;
  bool zeros_ = false;  // only zeros have come since the last member
};

}  // namespace

std::unique_ptr<Decoder> gzip_decoder() { return std::make_unique<GzipDecoder>(); }

}  // namespace comera::storage
