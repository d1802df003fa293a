#include "data/json_members.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace comera::data {

namespace {

// Takes the events of nlohmann::json::sax_parse; false ends the parse.
class Members {
 public:
  Members(const std::vector<std::string>& wanted, std::vector<std::optional<std::string>>& values,
          std::vector<std::string>* names)
      : wanted_(wanted), values_(values), names_(names), seen_(wanted.size()) {}

  JsonResult result = JsonResult::ok;
  bool is_object = false;

  bool key(std::string& name) {
    if (depth_ != 1) return true;
    if (names_ != nullptr) names_->push_back(name);
    const auto found = std::find(wanted_.begin(), wanted_.end(), name);
    place_ = found == wanted_.end() ? -1 : found - wanted_.begin();
    if (place_ >= 0 && std::exchange(seen_[place_], 1) != 0) return fail(JsonResult::doubled_member);
    return true;
  }
  bool string(std::string& text) { return take(std::move(text)); }
  bool null() { return depth_ > 0; }
  bool boolean(bool value) { return take(value ? "true" : "false"); }
  bool number_integer(std::int64_t value) { return take(std::to_string(value)); }
  bool number_unsigned(std::uint64_t value) { return take(std::to_string(value)); }
  bool number_float(double, const std::string& written) { return take(written); }
  bool binary(nlohmann::json::binary_t&) { return false; }
  bool start_object(std::size_t) {
    if (depth_ == 0) is_object = true;
    return open();
  }
  bool start_array(std::size_t) { return depth_ > 0 && open(); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) {
    return fail(JsonResult::not_an_object);
  }

 private:
  bool fail(JsonResult why) {
    result = why;
    return false;
  }
  bool take(std::string text) {
    if (depth_ == 0) return false;
    if (depth_ == 1 && place_ >= 0) values_[place_] = std::move(text);
    return true;
  }
  bool open() {
    if (depth_ == 1 && place_ >= 0) return fail(JsonResult::member_is_no_text);
    ++depth_;
    return true;
  }
  bool close() {
    --depth_;
    return true;
  }

  const std::vector<std::string>& wanted_;
  std::vector<std::optional<std::string>>& values_;
  std::vector<std::string>* names_;
  std::vector<char> seen_;     // not bool: std::exchange needs a reference
  std::ptrdiff_t place_ = -1;  // of the member being read among the wanted ones
  std::int64_t depth_ = 0;
};

}  // namespace

JsonResult read_json_members(std::string_view json, const std::vector<std::string>& wanted,
                             std::vector<std::optional<std::string>>& values,
                             std::vector<std::string>* names) {
  values.assign(wanted.size(), std::nullopt);
  Members members(wanted, values, names);
  const bool parsed = nlohmann::json::sax_parse(json, &members);
  if (members.result != JsonResult::ok) return members.result;
  // A name that is wanted again has its first place's value.
  for (std::size_t i = 1; i < wanted.size(); ++i)
    values[i] = values[std::find(wanted.begin(), wanted.end(), wanted[i]) - wanted.begin()];
  return parsed && members.is_object ? JsonResult::ok : JsonResult::not_an_object;
}

}  // namespace comera::data
