#include "data/tasks/column_names.h"

#include <algorithm>
#include <cctype>
#include <utility>
#include <vector>

namespace comera::data {

std::string plain_name(const std::string& name) {
  std::string letters;
  for (const unsigned char c : name)
    if (c >= 0x80 || std::isalnum(c) != 0) letters += static_cast<char>(std::tolower(c));
  return letters;
}

bool is_any_name_of(const std::string& name, std::initializer_list<const char*> names) {
  return std::ranges::any_of(names, [&](const char* other) { return name == other; });
}

bool is_text_name(const std::string& name) {
  return is_any_name_of(name,
                        {"abstract",  "answer",     "article",  "body",      "code",        "comment",
                         "content",   "context",    "document", "headline",  "hypothesis",  "message",
                         "paragraph", "passage",    "post",     "premise",   "query",       "question",
                         "review",    "reviewtext", "sentence", "sms",       "string",      "summary",
                         "text",      "title",      "tweet",    "utterance", "description", "documentation"});
}

namespace {

// "sentence" of "sentence1", "text" of "textb", "string" of "1string"; otherwise empty.
std::string numbered_stem(const std::string& name, char number, char letter) {
  if (name.empty()) return {};
  if (name.back() == number || name.back() == letter)
    if (std::string stem = name.substr(0, name.size() - 1); is_text_name(stem)) return stem;
  if (name.front() == number && is_text_name(name.substr(1))) return name.substr(1);
  return {};
}

}  // namespace

bool is_text_or_numbered(const std::string& name) {
  return is_text_name(name) || !numbered_stem(name, '1', 'a').empty() ||
         !numbered_stem(name, '2', 'b').empty();
}

bool is_label_name(const std::string& name) {
  return is_any_name_of(
      name,
      {"category",  "class",      "emotion",         "goldlabel", "grade",  "intent",           "isduplicate",
       "label",     "labels",     "polarity",        "quality",   "rating", "relatednessscore", "score",
       "sentiment", "similarity", "similarityscore", "star",      "stars",  "target",           "topic",
       "y"});
}

bool is_score_name(const std::string& name) {
  return is_any_name_of(name,
                        {"grade", "rating", "relatednessscore", "score", "similarity", "similarityscore"});
}

bool is_id_name(const std::string& name) {
  return name.empty() ||
         is_any_name_of(name, {"docid", "guid", "id", "idx", "index", "line", "linenumber", "number",
                               "pairid", "promptid", "row", "rowid", "uid", "uuid", "unnamed0"});
}

bool is_pair_of_texts(const std::string& first, const std::string& second) {
  const std::string stem = numbered_stem(first, '1', 'a');
  if (!stem.empty() && stem == numbered_stem(second, '2', 'b')) return true;
  static const std::vector<std::pair<const char*, const char*>> pairs = {
      {"premise", "hypothesis"}, {"question", "answer"},    {"question", "passage"},  {"question", "context"},
      {"question", "sentence"},  {"question", "paragraph"}, {"question", "text"},     {"query", "passage"},
      {"query", "document"},     {"query", "text"},         {"title", "body"},        {"title", "text"},
      {"title", "abstract"},     {"title", "content"},      {"title", "description"}, {"title", "review"},
      {"headline", "body"},      {"documentation", "code"}, {"context", "question"},  {"document", "summary"},
      {"article", "summary"}};
  return std::ranges::any_of(pairs,
                             [&](const auto& pair) { return first == pair.first && second == pair.second; });
}

}  // namespace comera::data
