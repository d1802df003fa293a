#include "kernels/core/check.h"

namespace comera {

namespace {

std::string one_line(const std::string& message) {
  std::string line;
  line.reserve(message.size());
  for (const char c : message) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '\n')
      line += "\\n";
    else if (code < 0x20 || code == 0x7f)
      line += fmt::format("\\x{:02x}", code);
    else
      line += c;
  }
  return line;
}

}  // namespace

Error::Error(const std::string& message) : std::runtime_error(one_line(message)) {}

void throw_error(const std::string& message) { throw Error(message); }

}  // namespace comera
