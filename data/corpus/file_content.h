#pragma once

#include <string>
#include <string_view>

// Detects a file's format from its first bytes, regardless of its name.
namespace comera::data {

// The rest of a sentence about a file without rows of UTF-8 text, with a remedy: "is UTF-16; convert it to
// UTF-8, …", "is a Parquet file; …". Empty if nothing is wrong.
std::string what_is_wrong_with(std::string_view beginning);
// Whether it is UTF-16 or UTF-32, with or without a byte-order mark.
bool is_wide_text(std::string_view beginning);
// Whether it is JSON objects with members: a list of them, one that spans lines, or one in at least every
// other line, of which the first may be cut.
bool holds_json_objects(std::string_view beginning);

}  // namespace comera::data
