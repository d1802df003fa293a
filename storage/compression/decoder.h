#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

// Detects and decodes the compressed formats of InputFile.
namespace comera::storage {

// A file read in pieces of up to 64 KiB.
class FileBuffer {
 public:
  // Takes the open file over.
  explicit FileBuffer(int descriptor);
  ~FileBuffer();
  FileBuffer(const FileBuffer&) = delete;
  FileBuffer& operator=(const FileBuffer&) = delete;

  // The bytes that have been read and not consumed.
  std::string_view bytes() const { return {buffer_.data() + place_, end_ - place_}; }
  void consume(std::size_t count) { place_ += count; }
  // Reads more bytes behind them, unless 64 KiB wait already. ReadFailure if the system cannot.
  void fill();
  bool at_end() const { return at_end_; }  // of the file; bytes may still wait
  // Bytes of the file that have been consumed.
  std::int64_t used() const { return taken_ - static_cast<std::int64_t>(end_ - place_); }

 private:
  int descriptor_;
  std::vector<char> buffer_;
  std::size_t place_ = 0, end_ = 0;
  std::int64_t taken_ = 0;
  bool at_end_ = false;
};

class Decoder {
 public:
  virtual ~Decoder() = default;
  // Up to `most` decoded bytes; fewer only at the end or before damage, which is then described.
  virtual std::size_t decode(FileBuffer& from, char* to, std::size_t most, std::string& damage) = 0;
};

constexpr std::size_t longest_magic = 4;

// For the format that begins so: gzip (RFC 1952) or Zstandard (RFC 8878). Null for plain files.
std::unique_ptr<Decoder> decoder_for(std::string_view beginning);

std::unique_ptr<Decoder> gzip_decoder();
// Frames with windows of up to 2 GiB (zstd --long=31), which is then the memory it needs.
std::unique_ptr<Decoder> zstd_decoder();

}  // namespace comera::storage
