#include "exchange/transformers/class_labels.h"

#include <algorithm>
#include <charconv>
#include <map>

namespace comera::exchange {

namespace {

constexpr std::int64_t most_classes = 100'000;

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// Keys are integers as text, as Python's int() reads them.
std::int64_t class_of(const std::string& key, const std::string& file) {
  const char* begin = key.data();
  const char* end = begin + key.size();
  while (begin < end && is_space(*begin)) ++begin;
  while (begin < end && is_space(end[-1])) --end;
  std::int64_t number = -1;
  const auto [stop, code] = std::from_chars(begin, end, number);
  COMERA_CHECK(code == std::errc() && stop == end,
               "{}: id2label has the key '{}', which is not a class number", file, key);
  return number;
}

std::string text_of(const nlohmann::json& label, std::int64_t number, const std::string& file) {
  if (label.is_number()) return label.dump();
  COMERA_CHECK(label.is_string(), "{}: id2label names class {} {}; give it a name that is text or a number",
               file, number, label.dump().substr(0, 60));
  auto text = label.get<std::string>();
  COMERA_CHECK(!text.empty(), "{}: id2label has an empty name for class {}; give it one", file, number);
  COMERA_CHECK(
      !is_space(text.front()) && !is_space(text.back()) && text.find_first_of("\t\n\r") == std::string::npos,
      "{}: id2label names class {} '{}': labels in tables are read without the spaces around them; remove "
      "these",
      file, number, text);
  return text;
}

// The names of classes 0, 1, … by number: the order of the keys has no meaning.
std::vector<std::string> read_names(const nlohmann::json& named, const std::string& file) {
  COMERA_CHECK(named.is_object(), "{}: id2label is not an object of numbers and names", file);
  COMERA_CHECK(static_cast<std::int64_t>(named.size()) < most_classes, "{}: id2label has {} classes", file,
               named.size());
  std::map<std::int64_t, std::string> names;
  for (const auto& [key, label] : named.items()) {
    const std::int64_t number = class_of(key, file);
    COMERA_CHECK(names.emplace(number, text_of(label, number, file)).second,
                 "{}: id2label has two names for class {}", file, number);
  }
  std::vector<std::string> labels;
  for (const auto& [number, name] : names) {
    COMERA_CHECK(number == std::ssize(labels), "{}: id2label has no name for class {}", file,
                 std::ssize(labels));
    const auto same = std::ranges::find(labels, name);
    COMERA_CHECK(same == labels.end(),
                 "{}: id2label names classes {} and {} alike, '{}'; give each its own name", file,
                 same - labels.begin(), number, name);
    labels.push_back(name);
  }
  return labels;
}

// num_labels, and the names if they are as many.
SequenceAnswers count_labels(const ConfigMembers& config) {
  SequenceAnswers answers;
  if (config.has("id2label")) {
    const nlohmann::json named = config.get<nlohmann::json>("id2label");
    // Names in the wrong number are ignored, and may be anything.
    if (!config.has("num_labels") || !named.is_object() ||
        config.get<std::int64_t>("num_labels") == static_cast<std::int64_t>(named.size()))
      answers.labels = read_names(named, config.file());
  }
  answers.count = config.get<std::int64_t>(
      "num_labels", config.has("id2label") ? static_cast<std::int64_t>(answers.labels.size()) : 2);
  COMERA_CHECK(answers.count > 0 && answers.count < most_classes, "{}: {} classes cannot be imported ({})",
               config.file(), answers.count, config.has("num_labels") ? "num_labels" : "id2label");
  return answers;
}

void give_names(SequenceAnswers& answers) {
  if (answers.labels.empty())
    for (std::int64_t i = 0; i < answers.count; ++i) answers.labels.push_back(fmt::format("LABEL_{}", i));
}

}  // namespace

SequenceAnswers read_answers(const ConfigMembers& config) {
  const auto problem = config.get<std::string>("problem_type", "");
  COMERA_CHECK(
      problem.empty() || problem == "regression" || problem == "single_label_classification" ||
          problem == "multi_label_classification",
      "{}: problem_type = \"{}\" cannot be imported; a head for classes, for several labels, or for one "
      "score, can",
      config.file(), problem);
  SequenceAnswers answers = count_labels(config);
  answers.several = problem == "multi_label_classification";
  answers.regression = problem == "regression" || (problem.empty() && answers.count == 1);
  COMERA_CHECK(!answers.regression || answers.count == 1,
               "{}: problem_type = \"regression\" with {} scores at once cannot be imported; one score can",
               config.file(), answers.count);
  COMERA_CHECK(answers.regression || answers.count > 1,
               "{}: problem_type = \"{}\" with one class cannot be imported: there is nothing to tell apart",
               config.file(), problem);
  if (answers.regression) answers.labels.clear();
  if (!answers.regression) give_names(answers);
  return answers;
}

std::vector<std::string> read_token_labels(const ConfigMembers& config) {
  SequenceAnswers answers = count_labels(config);
  COMERA_CHECK(answers.count > 1,
               "{}: one label of tokens cannot be imported: there is nothing to tell apart", config.file());
  give_names(answers);
  return answers.labels;
}

}  // namespace comera::exchange
