#include "training/logging/json.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace comera {

std::string json_text(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void set_if_finite(Json& object, const std::string& key, double value) {
  if (std::isfinite(value)) object[key] = value;
}

}  // namespace comera
