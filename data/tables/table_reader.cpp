#include "data/tables/table_reader.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "data/corpus/file_content.h"
#include "data/tokenizers/text/utf8.h"

namespace comera::data {

namespace {

constexpr const char* unquoted = "a quoted field does not end";

std::string plural(std::int64_t count) {
  return count == 1 ? "1 row was" : fmt::format("{} rows were", count);
}

void split_tsv(const std::string& record, std::vector<std::string>& fields) {
  std::size_t begin = 0;
  while (true) {
    const std::size_t tab = record.find('\t', begin);
    fields.emplace_back(record, begin, tab == std::string::npos ? tab : tab - begin);
    if (tab == std::string::npos) return;
    begin = tab + 1;
  }
}

// A field that begins with a quote ends at the next quote that is not doubled; text after it up to the
// separator is kept as it is.
void split_quoted(const std::string& record, char separator, std::vector<std::string>& fields) {
  std::string field;
  bool quoted = false;
  for (std::size_t i = 0; i < record.size(); ++i) {
    const char c = record[i];
    if (quoted) {
      if (c != '"')
        field += c;
      else if (i + 1 < record.size() && record[i + 1] == '"')
        field += record[++i];
      else
        quoted = false;
    } else if (c == separator) {
      fields.push_back(std::move(field));
      field.clear();
    } else if (c == '"' && (i == 0 || record[i - 1] == separator)) {
      quoted = true;
    } else {
      field += c;
    }
  }
  fields.push_back(std::move(field));
}

// Whether text follows the closing quote of a quoted field: often a sign that an earlier quote is missing.
bool has_text_behind_quote(std::string_view record, char separator) {
  bool quoted = false;
  for (std::size_t i = 0; i < record.size(); ++i) {
    const bool begins = i == 0 || record[i - 1] == separator;
    if (!quoted) {
      quoted = record[i] == '"' && begins;
    } else if (record[i] == '"') {
      if (i + 1 < record.size() && record[i + 1] == '"')
        ++i;
      else if (i + 1 < record.size() && record[i + 1] != separator && record[i + 1] != '\r')
        return true;
      else
        quoted = false;
    }
  }
  return false;
}

// Whether a quoted field is still open after `text`; `before` says whether one was, and `fresh` whether
// text begins a field.
bool ends_quoted(std::string_view text, char separator, bool before, bool fresh) {
  bool quoted = before;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool starts_field = i == 0 ? fresh : text[i - 1] == separator;
    if (quoted) {
      if (text[i] != '"') continue;
      if (i + 1 < text.size() && text[i + 1] == '"')
        ++i;
      else
        quoted = false;
    } else if (text[i] == '"' && starts_field) {
      quoted = true;
    }
  }
  return quoted;
}

// A text as programs write it that quote fields: in quotes, with those in it doubled.
bool is_written_in_quotes(std::string_view field) {
  return field.size() > 2 && field.front() == '"' && field.back() == '"' &&
         field.substr(1, field.size() - 2).find("\"\"") != std::string_view::npos;
}

// Between fields that may be in quotes; 0: of another format.
char separator_of(TableFormat format) {
  switch (format) {
    case TableFormat::csv:
      return ',';
    case TableFormat::semicolon_csv:
      return ';';
    case TableFormat::quoted_tsv:
      return '\t';
    default:
      return 0;
  }
}

constexpr const char* not_utf8 = "invalid UTF-8";

const char* reason_of(JsonResult result) {
  switch (result) {
    case JsonResult::doubled_member:
      return "doubled field";
    case JsonResult::member_is_no_text:
      return "field is not text";
    case JsonResult::lone_surrogate:
      return "lone surrogate";
    default:
      return "not a JSON object";
  }
}

}  // namespace

std::int64_t TableCounts::all_skipped() const {
  std::int64_t sum = 0;
  for (const auto& [reason, entry] : skipped) sum += entry.rows;
  return sum;
}

void TableCounts::skip(const std::string& reason, std::int64_t line, std::int64_t bytes) {
  Skipped& entry = skipped[reason];
  entry.bytes += bytes;
  if (entry.rows++ == 0) entry.first_line = line;
}

std::string note_on_quotes(const std::filesystem::path& file, const TableCounts& counts) {
  if (counts.in_quotes == 0 || 100 * counts.in_quotes < counts.rows) return "";
  return fmt::format(
      "{}: {} fields in quotes with doubled quotes in them, as pandas writes them; they are read with these "
      "quotes: give --set task.format=quoted_tsv (or --format quoted_tsv) to read the text in them",
      file.string(), counts.in_quotes == 1 ? "1 row has" : fmt::format("{} rows have", counts.in_quotes));
}

std::string describe_skipped(const std::filesystem::path& file, const TableCounts& counts) {
  if (counts.skipped.empty()) return "";
  std::vector<std::string> reasons;
  for (const auto& [reason, rows] : counts.skipped)
    reasons.push_back(fmt::format("{}: {} (first in line {})", reason, rows.rows, rows.first_line));
  return fmt::format(
      "{}: {} left out: {}{}", file.string(), plural(counts.all_skipped()), fmt::join(reasons, ", "),
      counts.skipped.contains(not_utf8)
          ? "; a file in another encoding must be converted first, such as with iconv -f LATIN1 -t UTF-8"
          : "");
}

TableFormat format_of(const std::filesystem::path& path) {
  std::string name = path.filename().string();
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  for (std::filesystem::path rest = name; rest.has_extension(); rest = rest.stem()) {
    const std::string suffix = rest.extension().string();
    if (suffix == ".tsv" || suffix == ".tab") return TableFormat::tsv;
    if (suffix == ".csv") return TableFormat::csv;
    if (suffix == ".jsonl" || suffix == ".json" || suffix == ".ndjson") return TableFormat::jsonl;
    if (suffix == ".txt" || suffix == ".text") return TableFormat::text;
    const bool number = suffix.find_first_not_of("0123456789", 1) == std::string::npos;
    if (suffix != ".gz" && suffix != ".zst" && !number) break;
  }
  return TableFormat::automatic;
}

bool is_separated(TableFormat format) { return format == TableFormat::tsv || separator_of(format) != 0; }

TableFormat found_format_of(const std::filesystem::path& path, const std::vector<std::string>& header) {
  return TableReader(path, {.optional = header}).format();
}

TableReader::TableReader(const std::filesystem::path& path, TableOptions options)
    : options_(std::move(options)),
      lines_(path, options_.longest_row),
      objects_(lines_, options_.longest_row),
      format_(find_format()),
      wanted_(options_.columns) {
  wanted_.insert(wanted_.end(), options_.optional.begin(), options_.optional.end());
  read_header();
  if (format_ != TableFormat::jsonl || columnar_) find_columns();
}

// "give --format text" or "set task.format = "text"".
std::string TableReader::set_format(const char* format) const {
  const std::string& option = options_.format_option;
  return option.starts_with("--") ? fmt::format("give {} {}", option, format)
                                  : fmt::format("set {} = \"{}\"", option, format);
}

// A table without any indication of its format would be read as text, including its separators and numbers.
void TableReader::refuse_hidden_header(std::string_view beginning) const {
  const std::size_t end = beginning.find_first_of("\r\n");
  const std::vector<std::string>& expected = options_.columns.empty() ? options_.optional : options_.columns;
  if (!options_.header || expected.empty() || end == std::string_view::npos) return;
  const std::string line(beginning.substr(0, end));
  for (const bool tabs : {true, false}) {
    std::vector<std::string> fields;
    tabs ? split_tsv(line, fields) : split_quoted(line, ',', fields);
    const bool all = std::ranges::all_of(expected, [&](const std::string& column) {
      return std::ranges::find(fields, column) != fields.end();
    });
    if (fields.size() > 1 && all)
      throw UnsuitableTable(fmt::format(
          "{}: its first line names the columns {}, so it seems to be a table, although its name says "
          "otherwise; {} to read it as one, or {} to read each line as text",
          path().string(), fmt::join(fields, ", "), set_format(tabs ? "tsv" : "csv"), set_format("text")));
  }
}

// False if the file is none with columns.
bool TableReader::open_columns(std::string_view beginning) {
  if (columnar_format_of(beginning) == nullptr) {
    if (is_columnar_name(path()))
      throw UnsuitableTable(fmt::format(
          "{}: is no Parquet or Arrow file, although its name says so; rename it", path().string()));
    return false;
  }
  if (!reads_columnar_files()) return false;  // what_is_wrong_with() says more
  if (const std::string suffix = path().extension().string(); suffix == ".gz" || suffix == ".zst")
    throw UnsuitableTable(fmt::format("{}: is a compressed {} file; unpack it", path().string(),
                                      columnar_format_of(beginning)));
  columnar_ = open_columnar(path());
  return true;
}

TableFormat TableReader::find_format() {
  const std::string_view beginning = lines_.ahead();
  if (open_columns(beginning)) return TableFormat::jsonl;
  if (const std::string wrong = what_is_wrong_with(beginning); !wrong.empty())
    throw UnsuitableTable(fmt::format("{}: {}", path().string(), wrong));
  if (options_.format != TableFormat::automatic) return options_.format;
  const TableFormat named = format_of(path());
  if (named == TableFormat::jsonl) return named;
  if (holds_json_objects(beginning)) {
    if (named == TableFormat::automatic) return TableFormat::jsonl;
    throw UnsuitableTable(
        fmt::format("{}: holds JSON objects, although its name says otherwise; {} to read their members, or "
                    "{} to read each line as text",
                    path().string(), set_format("jsonl"), set_format("text")));
  }
  if (named == TableFormat::tsv || named == TableFormat::csv) return named;
  refuse_hidden_header(beginning);
  return TableFormat::text;
}

TableReader::Record TableReader::skip(const char* reason) {
  counts_.skip(reason, record_line_, record_bytes_);
  return Record::skipped;
}

LineReader::Result TableReader::read_raw() {
  LineReader::Result found = LineReader::Result::end;
  if (columnar_) {
    if (!columnar_->next(record_)) return LineReader::Result::end;
    ++record_line_;
    record_bytes_ = static_cast<std::int64_t>(record_.size());
    return LineReader::Result::line;
  }
  if (format_ == TableFormat::jsonl) {
    found = objects_.next(record_);
    record_line_ = objects_.line();
    record_bytes_ = objects_.bytes();
    return found;
  }
  do {
    found = lines_.next(record_);
    record_line_ = lines_.number();
    record_bytes_ = lines_.bytes();
    if (found == LineReader::Result::line && record_.empty() && counts_.blank++ == 0)
      counts_.first_blank = record_line_;
  } while (found == LineReader::Result::line && record_.empty());
  return found;
}

TableReader::Record TableReader::read_record() {
  record_.clear();
  LineReader::Result found = read_raw();
  if (found == LineReader::Result::end) return Record::end;
  if (found == LineReader::Result::too_long) return skip("too long");
  if (const char separator = separator_of(format_);
      separator != 0 && record_.find('"') != std::string::npos) {
    bool open = ends_quoted(record_, separator, false, true);
    while (open) {
      found = lines_.next(line_);
      COMERA_CHECK(found == LineReader::Result::line &&
                       static_cast<std::int64_t>(record_.size() + line_.size()) < options_.longest_row,
                   "{}: {} after line {}; is a quote missing, or is the file {}?", path().string(), unquoted,
                   record_line_,
                   separator == '\t' ? "a TSV whose quotes are text (format tsv)" : "TSV rather than CSV");
      open = ends_quoted(line_, separator, true, false);
      record_ += '\n';
      record_ += line_;
    }
    record_bytes_ = static_cast<std::int64_t>(record_.size());
    if (record_.find('\n') != std::string::npos && has_text_behind_quote(record_, separator))
      return skip("text behind a closing quote after several lines");
  }
  if (record_.find('\0') != std::string::npos) return skip("NUL byte");
  if (!is_utf8(record_)) return skip(not_utf8);
  return Record::row;
}

void TableReader::split_record(std::vector<std::string>& fields) const {
  fields.clear();
  if (format_ == TableFormat::tsv)
    split_tsv(record_, fields);
  else if (const char separator = separator_of(format_); separator != 0)
    split_quoted(record_, separator, fields);
  else
    fields.push_back(record_);
}

void TableReader::read_header() {
  if (columnar_) {
    header_ = columnar_->columns();
    if (!wanted_.empty()) columnar_->select(wanted_);
    return;
  }
  if (format_ == TableFormat::text) {
    header_ = {"text"};
    return;
  }
  Record found = read_record();
  const bool named = options_.header || format_ == TableFormat::jsonl;
  if (found == Record::skipped && options_.header && format_ != TableFormat::jsonl)
    throw Error(fmt::format("{}: the header in line {} is not readable: {}", path().string(), record_line_,
                            counts_.skipped.begin()->first));
  while (found == Record::skipped) found = read_record();
  if (found == Record::end) return;
  if (format_ == TableFormat::jsonl) {
    std::vector<std::optional<std::string>> ignored;
    std::vector<FieldKind> kinds;
    read_json_members(record_, {}, ignored, kinds, &header_);
  } else {
    split_record(header_);
    if (!named)
      for (std::size_t i = 0; i < header_.size(); ++i) header_[i] = std::to_string(i + 1);
  }
  pending_ = !options_.header || format_ == TableFormat::jsonl;
}

// A single column often means that the file's format differs from its name.
std::string TableReader::how_read() const {
  const char separator = separator_of(format_);
  const char* as = separator == ','               ? "CSV (fields between commas)"
                   : separator == ';'             ? "CSV (fields between semicolons)"
                   : format_ == TableFormat::text ? "plain text (each line a row)"
                                                  : "TSV (fields between tabs)";
  return fmt::format(
      "; it was read as {}, as {}; if it has another format, {}", as,
      options_.format == TableFormat::automatic ? "its name says" : options_.format_option + " says",
      options_.format == TableFormat::automatic
          ? fmt::format("give it the suffix .tsv, .csv or .jsonl, or use {}", options_.format_option)
          : fmt::format("change {}", options_.format_option));
}

void TableReader::find_columns() {
  for (std::size_t i = 0; i < wanted_.size(); ++i) {
    const std::string& name = wanted_[i];
    const auto count = std::count(header_.begin(), header_.end(), name);
    if (count == 0 && i < options_.columns.size())
      throw UnsuitableTable(fmt::format(
          "{}: no column '{}'; {}{}", path().string(), name,
          header_.empty() ? "the file is empty" : fmt::format("it has {}", fmt::join(header_, ", ")),
          header_.size() == 1 ? how_read() : ""));
    if (count > 1)
      throw UnsuitableTable(
          fmt::format("{}: {} columns are called '{}'; rename all but one", path().string(), count, name));
    places_.push_back(count == 0 ? -1 : std::find(header_.begin(), header_.end(), name) - header_.begin());
  }
}

bool TableReader::take_fields(TableRow& row) {
  split_record(fields_);
  if (fields_.size() != header_.size()) {
    skip("wrong number of fields");
    return false;
  }
  for (std::size_t i = 0; i < wanted_.size(); ++i)
    if (places_[i] >= 0)
      row.fields[i] = fields_[places_[i]];  // not moved: a column may be requested twice
    else
      row.fields[i].reset();
  if (format_ == TableFormat::tsv)
    counts_.in_quotes += std::ranges::any_of(fields_, is_written_in_quotes) ? 1 : 0;
  for (std::size_t i = 0; i < wanted_.size(); ++i)
    row.kinds[i] = row.fields[i] ? FieldKind::text : FieldKind::absent;
  return true;
}

bool TableReader::take_object(TableRow& row) {
  JsonResult result =
      read_json_members(record_, wanted_, row.fields, row.kinds, nullptr, options_.between_words);
  if (result == JsonResult::member_is_no_text && options_.any_optional) {  // rare, so each is read by itself
    result =
        read_json_members(record_, options_.columns, row.fields, row.kinds, nullptr, options_.between_words);
    for (const std::string& name : options_.optional) {
      std::vector<std::optional<std::string>> field;
      std::vector<FieldKind> kind;
      const bool read = read_json_members(record_, {name}, field, kind) == JsonResult::ok;
      row.fields.push_back(read ? field[0] : std::nullopt);
      row.kinds.push_back(read ? kind[0] : FieldKind::absent);
    }
  }
  const char* reason = result == JsonResult::ok ? nullptr : reason_of(result);
  for (std::size_t i = 0; i < wanted_.size() && reason == nullptr; ++i) {
    if (i < options_.columns.size()) {
      if (row.kinds[i] == FieldKind::absent) reason = "missing field";
      if (row.kinds[i] == FieldKind::null && !options_.nulls) reason = "null field";
    }
    if (row.fields[i] && row.fields[i]->find('\0') != std::string::npos) reason = "NUL byte";
  }
  if (reason != nullptr) skip(reason);
  return reason == nullptr;
}

bool TableReader::next(TableRow& row) {
  row.fields.resize(wanted_.size());
  row.kinds.resize(wanted_.size());
  while (true) {
    const Record found = pending_ ? Record::row : read_record();
    pending_ = false;
    if (found == Record::end) {
      if (counts_.rows > 0 || counts_.skipped.empty()) return false;
      const bool lacks_column = format_ == TableFormat::jsonl && counts_.skipped.contains("missing field");
      throw UnsuitableTable(
          fmt::format("{}; nothing is left of it{}", describe_skipped(path(), counts_),
                      lacks_column ? fmt::format(" (wanted: {}; the first object has: {})",
                                                 fmt::join(options_.columns, ", "), fmt::join(header_, ", "))
                                   : ""));
    }
    if (found == Record::skipped) continue;
    row.line = record_line_;
    if (format_ == TableFormat::jsonl ? take_object(row) : take_fields(row)) {
      ++counts_.rows;
      return true;
    }
  }
}

}  // namespace comera::data
