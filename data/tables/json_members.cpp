#include "data/tables/json_members.h"

#include <algorithm>
#include <utility>

#include "data/tables/json_scanner.h"

namespace comera::data {

namespace {

// One object's members, in order.
class Members {
 public:
  Members(std::string_view json, const std::vector<std::string>& wanted,
          std::vector<std::optional<std::string>>& values, std::vector<FieldKind>& kinds,
          std::vector<std::string>* names, char between_words)
      : scanner_(json),
        wanted_(wanted),
        values_(values),
        kinds_(kinds),
        names_(names),
        between_words_(between_words) {}

  JsonResult read() {
    scanner_.blanks();
    if (!scanner_.skip('{')) return JsonResult::not_an_object;
    scanner_.blanks();
    if (!scanner_.skip('}')) {
      do {
        if (const JsonResult result = member(); result != JsonResult::ok) return result;
        scanner_.blanks();
      } while (scanner_.skip(','));
      if (!scanner_.skip('}')) return JsonResult::not_an_object;
    }
    scanner_.blanks();
    return scanner_.at_end() ? JsonResult::ok : JsonResult::not_an_object;
  }

 private:
  JsonResult member() {
    scanner_.blanks();
    bool lone = false;
    if (!scanner_.string(&name_, lone)) return JsonResult::not_an_object;
    scanner_.blanks();
    if (!scanner_.skip(':')) return JsonResult::not_an_object;
    scanner_.blanks();
    if (names_ != nullptr) names_->push_back(name_);
    const auto found = lone ? wanted_.end() : std::find(wanted_.begin(), wanted_.end(), name_);
    if (found == wanted_.end()) return scanner_.value() ? JsonResult::ok : JsonResult::not_an_object;
    const auto place = static_cast<std::size_t>(found - wanted_.begin());
    if (kinds_[place] != FieldKind::absent) return JsonResult::doubled_member;
    return wanted_value(place);
  }

  JsonResult wanted_value(std::size_t place) {
    FieldKind& kind = kinds_[place];
    std::string text;
    bool lone = false;
    switch (scanner_.next()) {
      case '"':
        kind = FieldKind::text;
        if (!scanner_.string(&text, lone)) return JsonResult::not_an_object;
        break;
      case '[':
        kind = FieldKind::words;
        if (const JsonResult result = words(text, lone); result != JsonResult::ok) return result;
        break;
      case '{':
        return JsonResult::member_is_no_text;
      default: {
        const std::string_view written = scanner_.scalar();
        if (written.empty()) return JsonResult::not_an_object;
        kind = written == "null" || written == "NaN"     ? FieldKind::null
               : written == "true" || written == "false" ? FieldKind::truth
                                                         : FieldKind::number;
        text = written;
      }
    }
    if (lone) return JsonResult::lone_surrogate;
    if (kind != FieldKind::null) values_[place] = std::move(text);
    return JsonResult::ok;
  }

  JsonResult words(std::string& text, bool& lone) {
    scanner_.skip('[');
    scanner_.blanks();
    if (scanner_.skip(']')) return JsonResult::ok;
    std::string word;
    bool first = true;
    do {
      scanner_.blanks();
      if (scanner_.next() == '"') {
        if (!scanner_.string(&word, lone)) return JsonResult::not_an_object;
      } else {
        if (between_words_ == ' ' || scanner_.next() == '[' || scanner_.next() == '{')
          return JsonResult::member_is_no_text;
        word = scanner_.scalar();
        if (word.empty()) return JsonResult::not_an_object;
        if (word == "null" || word == "NaN") return JsonResult::member_is_no_text;
      }
      if (!std::exchange(first, false)) text += between_words_;
      text += word;
      scanner_.blanks();
    } while (scanner_.skip(','));
    return scanner_.skip(']') ? JsonResult::ok : JsonResult::not_an_object;
  }

  JsonScanner scanner_;
  const std::vector<std::string>& wanted_;
  std::vector<std::optional<std::string>>& values_;
  std::vector<FieldKind>& kinds_;
  std::vector<std::string>* names_;
  char between_words_;
  std::string name_;
};

}  // namespace

JsonResult read_json_members(std::string_view json, const std::vector<std::string>& wanted,
                             std::vector<std::optional<std::string>>& values, std::vector<FieldKind>& kinds,
                             std::vector<std::string>* names, char between_words) {
  values.assign(wanted.size(), std::nullopt);
  kinds.assign(wanted.size(), FieldKind::absent);
  const JsonResult result = Members(json, wanted, values, kinds, names, between_words).read();
  // A repeated name has the value of its first occurrence.
  for (std::size_t i = 1; i < wanted.size(); ++i) {
    const auto first =
        static_cast<std::size_t>(std::find(wanted.begin(), wanted.end(), wanted[i]) - wanted.begin());
    values[i] = values[first];
    kinds[i] = kinds[first];
  }
  return result;
}

}  // namespace comera::data
