#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/tables/columnar_rows.h"
#include "data/tables/json_members.h"
#include "data/tables/json_records.h"
#include "data/tables/line_reader.h"

namespace comera::data {

// A table with a missing or duplicate wanted column, or without any well-formed row.
class UnsuitableTable : public Error {
 public:
  using Error::Error;
};

enum class TableFormat : std::uint8_t {
  automatic,      // by name (format_of), otherwise by content: JSON objects, or text
  tsv,            // tab-separated; quotes have no meaning, as in GLUE
  csv,            // comma-separated, quoted as in RFC 4180; a quoted field may span lines
  semicolon_csv,  // the same with semicolons, as spreadsheets write it where commas are decimal
  quoted_tsv,     // the same with tabs, as pandas writes it
  jsonl,  // one JSON object per line, one list of objects, or objects that span lines; columns are members
  text,   // one column, "text": each line is a row
};

struct TableOptions {
  TableFormat format = TableFormat::automatic;
  bool header = true;  // for TSV and CSV of any kind; without a header the columns are called 1, 2, 3, …
  std::vector<std::string> columns = {};   // wanted, possibly repeated; every row must have them
  std::vector<std::string> optional = {};  // wanted if present
  std::int64_t longest_row = LineReader::default_longest;  // bytes
  bool nulls =
      false;  // a JSON null in one of `columns` is an absent field instead of a reason to skip the row
  bool any_optional = false;  // a JSON value in one of `optional` that is no text is absent instead of a
                              // reason to skip the row
  char between_words = ' ';   // of lists in JSON (json_members.h)
  std::string format_option = "task.format";  // the option that sets the format, for messages
};

struct TableRow {
  std::int64_t line = 0;                           // where it begins, from 1
  std::vector<std::optional<std::string>> fields;  // of columns, then of optional
  std::vector<FieldKind> kinds;                    // of fields; in formats other than JSON, text or absent
};

// The number of rows delivered, and of rows skipped by reason: "too long", "NUL byte", "invalid UTF-8",
// "wrong number of fields", "not a JSON object", "missing field", "null field", "doubled field", "field is
// not text", "lone surrogate".
struct TableCounts {
  struct Skipped {
    std::int64_t rows = 0;
    std::int64_t first_line = 0;
    std::int64_t bytes = 0;
  };
  std::int64_t rows = 0;
  std::map<std::string, Skipped> skipped;
  std::int64_t blank = 0, first_blank = 0;  // lines between rows, which are neither
  std::int64_t in_quotes = 0;  // rows of a TSV with a field in quotes that has doubled quotes in it

  std::int64_t all_skipped() const;
  void skip(const std::string& reason, std::int64_t line, std::int64_t bytes = 0);
};

// One sentence: "FILE: 3 rows were left out: wrong number of fields 2 (first in line 7), NUL byte 1 (first in
// line 9)". Empty if none were.
std::string describe_skipped(const std::filesystem::path& file, const TableCounts& counts);
// A TSV that seems to be quoted; empty if it does not.
std::string note_on_quotes(const std::filesystem::path& file, const TableCounts& counts);

// The rows of a TSV, CSV, JSONL, text, Parquet or Arrow (columnar_rows.h) file, the first four plain or
// compressed (InputFile), read as a stream. Fields are well-formed UTF-8 without NUL. Blank lines are not
// rows, except inside a quoted field. JSON numbers and truth values
// are given as written, lists of texts joined by spaces; null and NaN are absent fields (json_members.h).
class TableReader {
 public:
  // Error if the file cannot be read; UnsuitableTable if it is not a table of UTF-8 text, is of another
  // format than its name indicates, or has a missing or duplicate column of `columns` (TSV, CSV).
  TableReader(const std::filesystem::path& path, TableOptions options);

  // False at the end. Malformed rows are skipped and counted. Error if the file is damaged (DamagedFile), a
  // quoted field is unterminated, or, at the end, all rows were malformed (UnsuitableTable).
  bool next(TableRow& row);

  const TableCounts& counts() const { return counts_; }
  // Bytes that no row contains if reading ended with an Error: the partial row, and the unread bytes of the
  // file on disk.
  std::int64_t lost() const { return lines_.unread() + static_cast<std::int64_t>(record_.size()); }
  const std::filesystem::path& path() const { return lines_.path(); }
  TableFormat format() const { return format_; }
  // Names from the header; for JSONL, the members of the first object; "1", "2", … without a header.
  const std::vector<std::string>& columns() const { return header_; }

 private:
  enum class Record : std::uint8_t { row, skipped, end };
  TableFormat find_format();
  bool open_columns(std::string_view beginning);
  void refuse_hidden_header(std::string_view beginning) const;
  std::string set_format(const char* format) const;
  LineReader::Result read_raw();  // into record_
  Record read_record();           // into record_, checked
  void read_header();
  void split_record(std::vector<std::string>& fields) const;
  void find_columns();
  std::string how_read() const;
  bool take_fields(TableRow& row);
  bool take_object(TableRow& row);
  Record skip(const char* reason);

  TableOptions options_;
  LineReader lines_;
  JsonRecords objects_;
  std::unique_ptr<ColumnarRows> columnar_;  // of Parquet and Arrow files, whose rows are read as JSON objects
  TableFormat format_;
  std::vector<std::string> wanted_;  // columns, then optional
  std::vector<std::string> header_;
  std::vector<std::int64_t> places_;  // of the wanted columns in a row; -1: absent
  std::string record_, line_;
  std::int64_t record_line_ = 0;
  std::int64_t record_bytes_ = 0;
  bool pending_ = false;  // record_ contains the first row already
  std::vector<std::string> fields_;
  TableCounts counts_;
};

// Whether its rows are lines with fields between separators.
bool is_separated(TableFormat format);

// The format indicated by a file's name, in upper or lower case: .tsv .tab, .csv, .jsonl .json .ndjson, .txt
// .text; .gz or .zst may follow, and the number of a rotated file. `automatic` if there is none.
TableFormat format_of(const std::filesystem::path& path);
// The format of a file: by name, otherwise by content, as in TableReader. Errors: TableReader's; a text whose
// first line names these columns is refused, as it seems to be a table.
TableFormat found_format_of(const std::filesystem::path& path, const std::vector<std::string>& header = {});

}  // namespace comera::data
