#include "storage/input_file.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "storage/compression/decoder.h"

namespace comera::storage {

namespace {

int open_to_read(const std::filesystem::path& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) throw ReadFailure(std::strerror(errno));
  return descriptor;
}

}  // namespace

struct InputFile::State {
  explicit State(const std::filesystem::path& path) : file(open_to_read(path)) {}

  void begin() {
    begun = true;
    while (file.bytes().size() < longest_magic && !file.at_end()) file.fill();
    decoder = decoder_for(file.bytes());
  }

  std::size_t copy(char* to, std::size_t most) {
    if (file.bytes().empty()) file.fill();
    const std::string_view bytes = file.bytes();
    const std::size_t count = std::min(most, bytes.size());
    std::memcpy(to, bytes.data(), count);
    file.consume(count);
    return count;
  }

  std::size_t read(char* to, std::size_t most) {
    if (!begun) begin();
    if (!decoder) return copy(to, most);
    const std::size_t count = damage.empty() ? decoder->decode(file, to, most, damage) : 0;
    if (count == 0 && !damage.empty()) throw DamagedData(damage);
    return count;
  }

  FileBuffer file;
  std::unique_ptr<Decoder> decoder;  // null for plain files
  bool begun = false;
  std::string damage;
};

InputFile::InputFile(const std::filesystem::path& path) : state_(std::make_unique<State>(path)) {}
InputFile::~InputFile() = default;
InputFile::InputFile(InputFile&&) noexcept = default;

std::int64_t InputFile::used() const { return state_->file.used(); }

std::size_t InputFile::read(char* to, std::size_t most) { return state_->read(to, most); }

}  // namespace comera::storage
