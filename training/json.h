#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace comera {

// Builds one JSON object as text, keys in the order of the calls. NaN and infinity, which JSON lacks, become
// null; bytes that are no UTF-8 become U+FFFD.
class JsonObject {
 public:
  JsonObject& add(std::string_view key, double value);
  // Left out if it is not finite.
  JsonObject& add_finite(std::string_view key, double value);
  JsonObject& add(std::string_view key, std::int64_t value);
  JsonObject& add(std::string_view key, std::string_view value);
  JsonObject& add(std::string_view key, const char* value) { return add(key, std::string_view(value)); }
  JsonObject& add(std::string_view key, const JsonObject& value);
  JsonObject& add(std::string_view key, const std::vector<double>& values);
  JsonObject& add(std::string_view key, const std::vector<std::int64_t>& values);
  JsonObject& add(std::string_view key, const std::vector<JsonObject>& values);
  JsonObject& add(std::string_view key, std::same_as<bool> auto value) {
    return add_text(key, value ? "true" : "false");
  }
  template <std::integral T>
  requires(!std::same_as<T, bool> && !std::same_as<T, std::int64_t>) JsonObject& add(std::string_view key,
                                                                                     T value) {
    return add(key, static_cast<std::int64_t>(value));
  }

  std::string text() const { return "{" + members_ + "}"; }

 private:
  friend class MetricsWriter;
  JsonObject& add_text(std::string_view key, const std::string& value);

  std::string members_;
};

// "text" in quotes.
std::string json_string(std::string_view text);

}  // namespace comera
