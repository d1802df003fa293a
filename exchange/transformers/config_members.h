#pragma once

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "kernels/core/check.h"

namespace comera::exchange {

// Members of one JSON object of a model's folder. Errors name the file and the key.
class ConfigMembers {
 public:
  // json must outlive this. file: for messages.
  ConfigMembers(const nlohmann::json& json, std::string file) : json_(json), file_(std::move(file)) {}

  // null counts as absent.
  bool has(const char* key) const {
    const auto found = json_.find(key);
    return found != json_.end() && !found->is_null();
  }
  template <class T>
  T get(const char* key) const {
    COMERA_CHECK(has(key), "{}: has no {}", file_, key);
    const nlohmann::json& found = json_.at(key);
    try {
      return found.get<T>();
    } catch (const nlohmann::json::exception&) {
      throw Error(fmt::format("{}: {} = {} is of the wrong kind", file_, key, found.dump().substr(0, 60)));
    }
  }
  template <class T>
  T get(const char* key, T otherwise) const {
    return has(key) ? get<T>(key) : otherwise;
  }
  // Rejects a setting that the encoder does not have.
  template <class T>
  void require(const char* key, const T& value) const {
    if (const T found = get<T>(key, value); found != value)
      throw Error(fmt::format("{}: {} = {} cannot be imported; only {} can", file_, key,
                              nlohmann::json(found).dump(), nlohmann::json(value).dump()));
  }
  const std::string& file() const { return file_; }

 private:
  const nlohmann::json& json_;
  std::string file_;
};

}  // namespace comera::exchange
