#include "exchange/json_object.h"

#include "kernels/core/check.h"
#include "storage/json_file.h"
#include "storage/small_file.h"

namespace comera::exchange {

std::optional<nlohmann::json> read_json(const std::filesystem::path& file) {
  constexpr std::int64_t largest = 16 << 20;
  std::error_code code;
  if (!std::filesystem::exists(file, code)) return std::nullopt;
  return storage::parse_json(storage::read_small_file(file, largest, "a JSON file"), file.string() + ":");
}

std::optional<nlohmann::json> read_object(const std::filesystem::path& file) {
  std::optional<nlohmann::json> json = read_json(file);
  COMERA_CHECK(!json || json->is_object(), "{}: is damaged: it is not a JSON object", file.string());
  return json;
}

}  // namespace comera::exchange
