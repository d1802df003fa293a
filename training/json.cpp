#include "training/json.h"

#include <fmt/ranges.h>

#include <cmath>

namespace comera {

namespace {

std::string json_number(double value) { return std::isfinite(value) ? fmt::format("{}", value) : "null"; }

// The length of the UTF-8 character at the start of text, or 0 if there is none (RFC 3629).
std::size_t character_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  // Too long a form, a surrogate, or beyond U+10FFFF.
  if ((first == 0xe0 && byte(1) < 0xa0) || (first == 0xed && byte(1) > 0x9f) ||
      (first == 0xf0 && byte(1) < 0x90) || (first == 0xf4 && byte(1) > 0x8f))
    return 0;
  return length;
}

}  // namespace

std::string json_string(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const std::size_t length = character_length(text);
    const char c = text[0];
    if (length == 0)
      out += "\xef\xbf\xbd";
    else if (c == '"' || c == '\\')
      out += fmt::format("\\{}", c);
    else if (c == '\n')
      out += "\\n";
    else if (static_cast<unsigned char>(c) < 0x20)
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    else
      out += text.substr(0, length);
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out + '"';
}

JsonObject& JsonObject::add_text(std::string_view key, const std::string& value) {
  members_ += fmt::format("{}{}:{}", members_.empty() ? "" : ",", json_string(key), value);
  return *this;
}

JsonObject& JsonObject::add(std::string_view key, double value) { return add_text(key, json_number(value)); }
JsonObject& JsonObject::add_finite(std::string_view key, double value) {
  return std::isfinite(value) ? add(key, value) : *this;
}
JsonObject& JsonObject::add(std::string_view key, std::int64_t value) {
  return add_text(key, fmt::format("{}", value));
}
JsonObject& JsonObject::add(std::string_view key, std::string_view value) {
  return add_text(key, json_string(value));
}
JsonObject& JsonObject::add(std::string_view key, const JsonObject& value) {
  return add_text(key, value.text());
}
JsonObject& JsonObject::add(std::string_view key, const std::vector<double>& values) {
  std::vector<std::string> texts;
  for (const double value : values) texts.push_back(json_number(value));
  return add_text(key, fmt::format("[{}]", fmt::join(texts, ",")));
}
JsonObject& JsonObject::add(std::string_view key, const std::vector<std::int64_t>& values) {
  return add_text(key, fmt::format("[{}]", fmt::join(values, ",")));
}
JsonObject& JsonObject::add(std::string_view key, const std::vector<JsonObject>& values) {
  std::vector<std::string> texts;
  for (const JsonObject& value : values) texts.push_back(value.text());
  return add_text(key, fmt::format("[{}]", fmt::join(texts, ",")));
}

}  // namespace comera
