#include "data/annotations/conll_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <charconv>

#include "data/tables/table_reader.h"
#include "data/tokenizers/text/utf8.h"

namespace comera::data {

namespace {

constexpr std::string_view document_mark = "-DOCSTART-";
constexpr std::string_view blanks = " \t\r\v\f";

std::int64_t column_of(const std::string& given, const char* key) {
  std::int64_t number = 0;
  const auto [end, code] = std::from_chars(given.data(), given.data() + given.size(), number);
  if (code != std::errc() || end != given.data() + given.size() || number < 1)
    throw UsageError(fmt::format(
        "{} = {}: columns of words have no names but numbers, from 1; give one of these", key, given));
  return number;
}

std::vector<std::string> split_at_blanks(std::string_view line) {
  std::vector<std::string> fields;
  for (std::size_t at = line.find_first_not_of(blanks); at != line.npos;) {
    const std::size_t end = line.find_first_of(blanks, at);
    fields.emplace_back(line.substr(at, end == line.npos ? line.npos : end - at));
    at = end == line.npos ? end : line.find_first_not_of(blanks, end);
  }
  return fields;
}

std::vector<std::string> split_at_tabs(std::string_view line) {
  std::vector<std::string> fields;
  for (std::size_t begin = 0; begin <= line.size();) {
    const std::size_t end = std::min(line.find('\t', begin), line.size());
    std::string_view field = line.substr(begin, end - begin);
    const std::size_t first = field.find_first_not_of(blanks);
    field = first == field.npos ? std::string_view()
                                : field.substr(first, field.find_last_not_of(blanks) + 1 - first);
    fields.emplace_back(field);
    begin = end + 1;
  }
  return fields;
}

bool is_blank(std::string_view line) { return line.find_first_not_of(blanks) == line.npos; }

}  // namespace

bool is_chunk_label(std::string_view label) {
  return label.size() > 2 && label[1] == '-' && std::string_view("BIESLU").find(label[0]) < 6;
}

ConllReader::ConllReader(const std::filesystem::path& path, const Task& task, bool labels)
    : lines_(path), labels_(labels) {
  if (task.text.size() > 1)
    throw UsageError(fmt::format("task.text names {} columns, but words have one", task.text.size()));
  if (!task.text.empty()) word_column_ = column_of(task.text[0], "task.text");
  if (labels && !task.label.empty()) label_column_ = column_of(task.label, "task.label");
}

void ConllReader::fail(const std::string& what) const {
  throw Error(fmt::format("{}: line {} {}", path().string(), lines_.number(), what));
}

bool ConllReader::read_line() {
  const LineReader::Result result = lines_.next(line_);
  if (result == LineReader::Result::end) return false;
  if (result == LineReader::Result::too_long) fail("is too long for a word and its columns");
  if (line_.find('\0') != line_.npos || !is_utf8(line_)) fail("is not UTF-8 text");
  return true;
}

std::vector<std::string> ConllReader::split() const {
  return tabs_ ? split_at_tabs(line_) : split_at_blanks(line_);
}

ConllWord ConllReader::word_of(const std::vector<std::string>& fields) {
  const std::int64_t count = std::ssize(fields);
  if (columns_ == 0) {
    columns_ = count, first_line_ = lines_.number();
    if (labels_ && label_column_ == 0 && columns_ == 1)
      fail("has one column, so there are no labels; give a file with a label behind each word");
    for (const auto& [key, column] : {std::pair{"task.text", word_column_}, {"task.label", label_column_}})
      if (column > columns_)
        throw UsageError(fmt::format("{}: line {} has {} columns, but {} is {}; give one of them",
                                     path().string(), lines_.number(), columns_, key, column));
  }
  if (count != columns_)
    fail(
        fmt::format("has {} columns, but line {} has {}; give each word a line with the same columns, and a "
                    "blank line between sentences",
                    count, first_line_, columns_));
  ConllWord word{.line = lines_.number(),
                 .text = fields[static_cast<std::size_t>(word_column_ - 1)],
                 .label = {},
                 .columns = fmt::format("{}", fmt::join(fields, "\t"))};
  if (labels_) word.label = fields[static_cast<std::size_t>((label_column_ > 0 ? label_column_ : count) - 1)];
  if (word.text.empty()) fail("has no word");
  if (labels_ && word.label.empty()) fail("has no label");
  return word;
}

bool ConllReader::next(std::vector<ConllWord>& sentence) {
  sentence.clear();
  document_lines_ = std::exchange(coming_document_lines_, {});
  while (read_line()) {
    if (is_blank(line_)) {
      if (!sentence.empty()) return true;
      continue;
    }
    if (line_.starts_with(document_mark)) {
      const std::string marked = fmt::format("{}", fmt::join(split_at_blanks(line_), "\t"));
      if (!sentence.empty()) {
        coming_document_lines_.push_back(marked);
        return true;
      }
      document_lines_.push_back(marked);
      continue;
    }
    if (columns_ == 0) tabs_ = line_.find('\t') != line_.npos;
    sentence.push_back(word_of(split()));
    has_words_ = true;
  }
  if (!has_words_) throw Error(fmt::format("{}: holds no word", path().string()));
  return !sentence.empty();
}

bool is_conll_file(const std::filesystem::path& file) {
  std::string name = file.filename().string();
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  std::filesystem::path plain = name;
  if (plain.extension() == ".gz" || plain.extension() == ".zst") plain = plain.stem();
  for (const char* suffix : {".conll", ".iob", ".iob2", ".bio"})
    if (plain.extension() == suffix) return true;
  const TableFormat format = format_of(file);
  std::error_code code;
  if ((format != TableFormat::automatic && format != TableFormat::text && format != TableFormat::tsv) ||
      !std::filesystem::is_regular_file(file, code))
    return false;
  constexpr int most_lines = 400;
  LineReader lines(file);
  std::string line;
  std::size_t columns = 0;
  std::int64_t words = 0, sentences = 0;
  bool between = true;
  for (int i = 0; i < most_lines && lines.next(line) == LineReader::Result::line; ++i) {
    if (is_blank(line) || line.starts_with(document_mark)) {
      between = true;
      continue;
    }
    const std::vector<std::string> fields = split_at_blanks(line);
    if (columns == 0) columns = fields.size();
    if (fields.size() != columns || columns < 2 || (fields.back() != "O" && !is_chunk_label(fields.back())))
      return false;
    sentences += between ? 1 : 0;
    between = false;
    ++words;
  }
  return sentences > 1 && words > sentences;
}

}  // namespace comera::data
