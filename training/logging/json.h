#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace comera {

// Objects keep their keys in insertion order.
using Json = nlohmann::ordered_json;

// The value in one line. NaN and infinity, which JSON lacks, become null; bytes that are not UTF-8 become
// U+FFFD.
std::string json_text(const Json& value);

// Sets the object's key to this value, if it is finite.
void set_if_finite(Json& object, const std::string& key, double value);

}  // namespace comera
