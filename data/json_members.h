#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace comera::data {

enum class JsonResult : unsigned char { ok, not_an_object, doubled_member, member_is_no_text };

// Reads the named members of one JSON object. A member that is a number or a truth value is given as it is
// written, null as absent; an object or list is no text. Members that were not asked for may be anything and
// take no memory. names, if given, gets the names of all members.
JsonResult read_json_members(std::string_view json, const std::vector<std::string>& wanted,
                             std::vector<std::optional<std::string>>& values,
                             std::vector<std::string>* names = nullptr);

}  // namespace comera::data
