#include <zstd.h>

#include "storage/compression/decoder.h"
#include "storage/input_file.h"

namespace comera::storage {

namespace {

constexpr int longest_window_log = 31;

class ZstdDecoder final : public Decoder {
 public:
  ZstdDecoder() : stream_(ZSTD_createDStream()) {
    if (stream_ == nullptr ||
        ZSTD_isError(ZSTD_DCtx_setParameter(stream_, ZSTD_d_windowLogMax, longest_window_log)) != 0) {
      ZSTD_freeDStream(stream_);
      throw ReadFailure("no memory");
    }
  }
  ~ZstdDecoder() override { ZSTD_freeDStream(stream_); }
  ZstdDecoder(const ZstdDecoder&) = delete;
  ZstdDecoder& operator=(const ZstdDecoder&) = delete;

  std::size_t decode(FileBuffer& from, char* to, std::size_t most, std::string& damage) override {
    ZSTD_outBuffer out = {to, most, 0};
    while (out.pos < most) {
      if (from.bytes().empty()) from.fill();
      const std::string_view bytes = from.bytes();
      if (bytes.empty() && between_frames_) break;
      ZSTD_inBuffer in = {bytes.data(), bytes.size(), 0};
      const std::size_t before = out.pos;
      const std::size_t result = ZSTD_decompressStream(stream_, &out, &in);
      from.consume(in.pos);
      if (ZSTD_isError(result) != 0) {
        damage = ZSTD_getErrorName(result);
        break;
      }
      between_frames_ = result == 0;
      if (!between_frames_ && from.at_end() && from.bytes().empty() && out.pos == before) {
        damage = "it ends too early";
        break;
      }
    }
    return out.pos;
  }

 private:
  ZSTD_DStream* stream_;
  bool between_frames_ = true;
};

}  // namespace

std::unique_ptr<Decoder> zstd_decoder() { return std::make_unique<ZstdDecoder>(); }

}  // namespace comera::storage
