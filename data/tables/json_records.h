#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "data/tables/line_reader.h"

namespace comera::data {

// Whether an object that begins in this line continues in the next one, where the syntax allows it: after a
// bracket, a comma or a colon. A truncated line usually ends elsewhere.
bool goes_on(std::string_view line);

// The values of a JSON file, one after another: one per line, the elements of one list, or values that span
// lines, as pretty printers write them. The file's beginning decides. In lists, and in values that span
// lines, only the brackets are examined. Memory: the longest accepted value.
class JsonRecords {
 public:
  // lines: positioned at its beginning; must outlive this.
  JsonRecords(LineReader& lines, std::int64_t longest) : lines_(lines), longest_(longest) {}

  // The next value; too_long leaves `record` empty. A value truncated by the end of the file is delivered as
  // far as it goes; an unterminated list ends with an empty value. Errors: LineReader's.
  LineReader::Result next(std::string& record);

  // The line where the last value begins, from 1, and its size.
  std::int64_t line() const { return line_; }
  std::int64_t bytes() const { return bytes_; }

 private:
  enum class Layout : std::uint8_t { unknown, lines, values };
  void find_layout();
  LineReader::Result next_line(std::string& record);
  LineReader::Result next_value(std::string& record);
  bool find_value(char& first);
  void keep(std::string& record, char c);
  void take_brackets(std::string& record);
  void take_string(std::string& record);
  void take_word(std::string& record);

  LineReader& lines_;
  std::int64_t longest_;
  Layout layout_ = Layout::unknown;
  bool in_list_ = false;
  bool begun_ = false;
  std::int64_t line_ = 0;
  std::int64_t bytes_ = 0;
};

}  // namespace comera::data
