#include "storage/compression/decoder.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "storage/input_file.h"

namespace comera::storage {

namespace {

constexpr std::size_t buffer_bytes = std::size_t{64} << 10;

}  // namespace

FileBuffer::FileBuffer(int descriptor) : descriptor_(descriptor), buffer_(buffer_bytes) {}
FileBuffer::~FileBuffer() { ::close(descriptor_); }

void FileBuffer::fill() {
  if (place_ == end_) place_ = end_ = 0;
  if (end_ == buffer_.size() || at_end_) return;
  ssize_t got = 0;
  do got = ::read(descriptor_, buffer_.data() + end_, buffer_.size() - end_);
  while (got < 0 && errno == EINTR);
  if (got < 0) throw ReadFailure(std::strerror(errno));
  at_end_ = got == 0;
  end_ += static_cast<std::size_t>(got);
  taken_ += got;
}

std::unique_ptr<Decoder> decoder_for(std::string_view beginning) {
  if (beginning.starts_with("\x1f\x8b")) return gzip_decoder();
  if (beginning.starts_with("\x28\xB5\x2F\xFD")) return zstd_decoder();
  // A skippable frame comes first where several threads compressed.
  const bool skippable = beginning.size() >= longest_magic && (beginning[0] & 0xF0) == 0x50 &&
                         beginning.substr(1).starts_with("\x2A\x4D\x18");
  if (skippable) return zstd_decoder();
  return nullptr;
}

}  // namespace comera::storage
