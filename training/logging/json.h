#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace comera {

// Objects keep the order in which their keys were given.
using Json = nlohmann::ordered_json;

// The value in one line. NaN and infinity, which JSON lacks, become null; bytes that are no UTF-8 become
// U+FFFD.
std::string json_text(const Json& value);

// Gives the object this number, if it is finite.
void set_if_finite(Json& object, const std::string& key, double value);

}  // namespace comera
