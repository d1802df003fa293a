#include "data/annotations/squad_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "data/tables/line_reader.h"
#include "data/tokenizers/text/utf8.h"
#include "storage/folder.h"
#include "storage/json_file.h"

namespace comera::data {

namespace {

using Json = nlohmann::json;

std::string read_whole(const std::filesystem::path& file) {
  storage::refuse_missing(file, "file");
  LineReader reader(file);
  std::string text;
  for (char byte = 0; reader.take(byte);) text += byte;
  return text;
}

// A value in a file, and its place for messages: "data[3].paragraphs[0].qas[2]".
class Place {
 public:
  Place(const Json& json, std::string file, std::string name)
      : json_(json), file_(std::move(file)), name_(std::move(name)) {}

  Place member(const char* key) const {
    if (!json_.is_object() || !json_.contains(key))
      fail(fmt::format("has no {}; a file of questions is in SQuAD's JSON", key));
    return {json_.at(key), file_, name_.empty() ? key : fmt::format("{}.{}", name_, key)};
  }
  bool has(const char* key) const { return json_.is_object() && json_.contains(key); }
  std::vector<Place> elements() const {
    if (!json_.is_array()) fail("is not a list");
    std::vector<Place> all;
    for (std::size_t i = 0; i < json_.size(); ++i)
      all.emplace_back(json_[i], file_, fmt::format("{}[{}]", name_, i));
    return all;
  }
  std::string text(const char* key) const {
    const Place found = member(key);
    if (!found.json_.is_string()) found.fail("is not text");
    return found.json_.get<std::string>();
  }
  std::int64_t number(const char* key) const {
    const Place found = member(key);
    if (!found.json_.is_number_integer()) found.fail("is not a whole number");
    return found.json_.get<std::int64_t>();
  }
  // Nothing if it is not there.
  std::optional<bool> flag(const char* key) const {
    if (!has(key)) return std::nullopt;
    if (!json_.at(key).is_boolean()) member(key).fail("is neither true nor false");
    return json_.at(key).get<bool>();
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(fmt::format("{}: {} {}", file_, name_.empty() ? "it" : name_, what));
  }

 private:
  const Json& json_;
  std::string file_, name_;
};

// Positions count characters in the file, bytes here; -1 beyond the end.
std::int64_t byte_of(const std::string& text, std::int64_t character) {
  for (std::size_t at = 0; at <= text.size(); ++at) {
    if (at < text.size() && continues_character(text[at])) continue;
    if (character-- == 0) return static_cast<std::int64_t>(at);
  }
  return -1;
}

SquadAnswer answer_of(const Place& place, const std::string& context) {
  SquadAnswer answer{.text = place.text("text"), .begin = byte_of(context, place.number("answer_start"))};
  if (answer.text.empty()) place.fail("has an empty text");
  const bool found = answer.begin >= 0 && context.compare(static_cast<std::size_t>(answer.begin),
                                                          answer.text.size(), answer.text) == 0;
  if (!found)
    place.fail(fmt::format("is '{}', which is not at character answer_start = {} of its context; correct it",
                           answer.text, place.number("answer_start")));
  return answer;
}

}  // namespace

SquadFile read_squad(const std::filesystem::path& file, bool answers) {
  const std::string text = read_whole(file);
  COMERA_CHECK(text.find_first_not_of(" \t\r\n") != text.npos,
               "{}: is empty; give a file of questions in SQuAD's JSON", file.string());
  const Json json = storage::parse_json(text, file.string() + ":");
  SquadFile read;
  std::set<std::string> ids;
  for (const Place& article : Place(json, file.string(), "").member("data").elements())
    for (const Place& paragraph : article.member("paragraphs").elements()) {
      const std::string context = paragraph.text("context");
      if (context.find_first_not_of(" \t\r\n") == context.npos) paragraph.fail("has an empty context");
      for (const Place& place : paragraph.member("qas").elements()) {
        SquadQuestion question{.id = place.text("id"),
                               .question = place.text("question"),
                               .context = read.contexts.size(),
                               .answers = {}};
        if (!ids.insert(question.id).second)
          place.fail(fmt::format("has the id {} of another question; give each its own", question.id));
        if (answers && !place.has("answers"))
          place.fail(
              "has no answers; to learn or score it, give a list of them, or an empty one if there is none");
        if (answers)
          for (const Place& answer : place.member("answers").elements())
            question.answers.push_back(answer_of(answer, context));
        const std::optional<bool> impossible = place.flag("is_impossible");
        if (impossible == true && !question.answers.empty())
          place.fail("is_impossible, but has answers; remove one of both (plausible_answers are not read)");
        if (answers && question.answers.empty() && impossible == false)
          place.fail("has no answer, but is_impossible is false; give it one, or make that true");
        read.impossible = read.impossible || impossible == true;
        read.questions.push_back(std::move(question));
      }
      read.contexts.push_back(context);
    }
  COMERA_CHECK(!read.questions.empty(), "{}: holds no question", file.string());
  return read;
}

std::int64_t SquadFile::unanswerable() const {
  return std::ranges::count_if(questions, [](const SquadQuestion& each) { return each.answers.empty(); });
}

bool is_squad_file(const std::filesystem::path& file) {
  std::filesystem::path plain = file.filename();
  if (plain.extension() == ".gz" || plain.extension() == ".zst") plain = plain.stem();
  std::error_code code;
  if (plain.extension() != ".json" || !std::filesystem::is_regular_file(file, code)) return false;
  LineReader lines(file);
  const std::string_view beginning = lines.ahead();
  const std::size_t first = beginning.find_first_not_of(" \t\r\n");
  return first != beginning.npos && beginning[first] == '{' &&
         beginning.find("\"paragraphs\"") != beginning.npos && beginning.find("\"data\"") != beginning.npos;
}

}  // namespace comera::data
