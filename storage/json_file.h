#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace comera::storage {

// Parses a JSON text of a file that may be hostile: what is nested deeply would overflow the stack where it
// is compared or written, and single values take many times the memory that they take in the file. Error if
// it is no JSON, or nested more than 32 deep, or has more than ten million values: "SUBJECT is damaged: it is
// no JSON; get the file anew".
nlohmann::json parse_json(std::string_view text, std::string_view subject);

}  // namespace comera::storage
