#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace comera::storage {

// Parses a JSON text from a possibly hostile file: deep nesting would overflow the stack in comparisons or
// output, and single values take many times their file size in memory. Error if it is not JSON, or nested
// more than 32 deep, or has more than ten million values: "SUBJECT is damaged: it is no JSON; get the file
// anew".
nlohmann::json parse_json(std::string_view text, std::string_view subject);

}  // namespace comera::storage
