#include "data/tables/json_records.h"

#include <string_view>
#include <utility>

namespace comera::data {

namespace {

bool is_json_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

}  // namespace

bool goes_on(std::string_view line) {
  bool quoted = false;
  char last = 0;
  int depth = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quoted) {
      i += c == '\\';
      quoted = c != '"';
      continue;
    }
    quoted = c == '"';
    depth += (c == '{' || c == '[') - (c == '}' || c == ']');
    if (!is_json_space(c)) last = c;
  }
  return !quoted && depth > 0 && std::string_view("{[,:").find(last) != std::string_view::npos;
}

void JsonRecords::find_layout() {
  const std::string_view ahead = lines_.ahead();
  const std::size_t begin = ahead.find_first_not_of(" \t\r\n");
  const std::size_t end = begin == std::string_view::npos ? begin : ahead.find('\n', begin);
  const bool values = begin != std::string_view::npos &&
                      (ahead[begin] == '[' || (ahead[begin] == '{' && end != std::string_view::npos &&
                                               goes_on(ahead.substr(begin, end - begin))));
  layout_ = values ? Layout::values : Layout::lines;
}

LineReader::Result JsonRecords::next(std::string& record) {
  if (layout_ == Layout::unknown) find_layout();
  return layout_ == Layout::lines ? next_line(record) : next_value(record);
}

LineReader::Result JsonRecords::next_line(std::string& record) {
  LineReader::Result found = LineReader::Result::end;
  do found = lines_.next(record);
  while (found == LineReader::Result::line && record.empty());
  line_ = lines_.number();
  bytes_ = lines_.bytes();
  return found;
}

// Skips separators between two values, and the brackets of the list.
bool JsonRecords::find_value(char& first) {
  while (lines_.take(first)) {
    if (is_json_space(first) || (in_list_ && first == ',')) continue;
    if (in_list_ && first == ']')
      in_list_ = false;
    else if (!begun_ && first == '[')
      in_list_ = begun_ = true;
    else
      return true;
  }
  return false;
}

void JsonRecords::keep(std::string& record, char c) {
  ++bytes_;
  if (bytes_ <= longest_)
    record += c;
  else
    record.clear();
}

void JsonRecords::take_string(std::string& record) {
  for (char c = 0; lines_.take(c);) {
    keep(record, c);
    if (c == '"') return;
    if (c == '\\' && lines_.take(c)) keep(record, c);
  }
}

void JsonRecords::take_brackets(std::string& record) {
  std::int64_t depth = 1;
  for (char c = 0; depth > 0 && lines_.take(c);) {
    keep(record, c);
    if (c == '"') take_string(record);
    depth += (c == '{' || c == '[') - (c == '}' || c == ']');
  }
}

void JsonRecords::take_word(std::string& record) {
  for (;;) {
    const std::string_view ahead = lines_.ahead();
    if (ahead.empty() || is_json_space(ahead.front()) ||
        (in_list_ && (ahead.front() == ',' || ahead.front() == ']')))
      return;
    char c = 0;
    lines_.take(c);
    keep(record, c);
  }
}

LineReader::Result JsonRecords::next_value(std::string& record) {
  record.clear();
  bytes_ = 0;
  char first = 0;
  const bool found = find_value(first);
  line_ = lines_.number() + 1;
  if (!found) return std::exchange(in_list_, false) ? LineReader::Result::line : LineReader::Result::end;
  begun_ = true;
  keep(record, first);
  if (first == '"')
    take_string(record);
  else if (first == '{' || first == '[')
    take_brackets(record);
  else
    take_word(record);
  return bytes_ > longest_ ? LineReader::Result::too_long : LineReader::Result::line;
}

}  // namespace comera::data
