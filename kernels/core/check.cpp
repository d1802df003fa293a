#include "kernels/core/check.h"

namespace comera {

namespace {

// The last position at or before `at` where a message can be cut without splitting a UTF-8 character.
std::size_t whole_characters(const std::string& message, std::size_t at) {
  while (at > 0 && (static_cast<unsigned char>(message[at]) & 0xc0) == 0x80) --at;
  return at;
}

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

// Shortens the middle of long quotes; the subject and the remedy stay. Short messages are unchanged, so that
// a message made from another one is not cut twice.
std::string shortened(const std::string& message) {
  constexpr std::size_t most = 2000, first = 1400, last = 500;
  if (message.size() <= most) return message;
  const std::size_t end = whole_characters(message, first);
  const std::size_t begin = whole_characters(message, message.size() - last);
  return fmt::format("{}[... {} more bytes ...]{}", message.substr(0, end), begin - end,
                     message.substr(begin));
}

}  // namespace

Error::Error(const std::string& message) : std::runtime_error(shortened(one_line(message))) {}

void throw_error(const std::string& message) { throw Error(message); }

}  // namespace comera
