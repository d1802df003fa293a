#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace comera::data {

enum class JsonResult : unsigned char {
  ok,
  not_an_object,
  doubled_member,
  member_is_no_text,
  lone_surrogate,  // half of a pair, such as \ud83d alone, which UTF-8 cannot represent
};

// The JSON type of a field that was converted to text.
enum class FieldKind : unsigned char {
  absent,
  null,  // also NaN, which represents missing values where there is no null
  text,
  number,
  truth,
  words,  // a list of texts
};

// Reads the named members of one JSON object as Python's json.loads does, including NaN, Infinity and
// -Infinity. A number or truth value is given as written, a list of texts joined by spaces, null as absent;
// an object or any other list is not text. between_words: instead of that space; then lists may have numbers
// too, as written. Other members may be anything and take no memory. names, if given,
// gets the names of all members.
JsonResult read_json_members(std::string_view json, const std::vector<std::string>& wanted,
                             std::vector<std::optional<std::string>>& values, std::vector<FieldKind>& kinds,
                             std::vector<std::string>* names = nullptr, char between_words = ' ');

}  // namespace comera::data
