#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/tables/json_members.h"
#include "data/tables/json_records.h"
#include "data/tables/line_reader.h"

namespace comera::data {

// A table that lacks a wanted column or has it twice, or of whose rows none is whole.
class UnsuitableTable : public Error {
 public:
  using Error::Error;
};

enum class TableFormat : std::uint8_t {
  automatic,  // by the name (format_of), or else by the content: JSON objects, or text
  tsv,        // fields between tabs; quotes mean nothing, as in GLUE
  csv,        // fields between commas, quoted as in RFC 4180; a quoted field may span lines
  jsonl,      // one JSON object per line, one list of objects, or objects that span lines; a column is a
              // member of an object
  text,       // one column, "text": each line is a row
};

struct TableOptions {
  TableFormat format = TableFormat::automatic;
  bool header = true;                      // of TSV and CSV; without one the columns are called 1, 2, 3, …
  std::vector<std::string> columns = {};   // wanted, some perhaps twice; every row has them
  std::vector<std::string> optional = {};  // wanted if the file has them
  std::int64_t longest_row = LineReader::default_longest;  // bytes
  bool nulls =
      false;  // a JSON null in one of `columns` is given as an absent field, rather than the row left out
  std::string format_option = "task.format";  // what sets the format, for messages
};

struct TableRow {
  std::int64_t line = 0;                           // where it begins, from 1
  std::vector<std::optional<std::string>> fields;  // of columns, then of optional
  std::vector<FieldKind> kinds;                    // of fields; of formats but JSON, text or absent
};

// How many rows were given, and how many were passed over for which reason: "too long", "NUL byte", "invalid
// UTF-8", "wrong number of fields", "not a JSON object", "missing field", "null field", "doubled field",
// "field is not text", "lone surrogate".
struct TableCounts {
  struct Skipped {
    std::int64_t rows = 0;
    std::int64_t first_line = 0;
    std::int64_t bytes = 0;
  };
  std::int64_t rows = 0;
  std::map<std::string, Skipped> skipped;

  std::int64_t all_skipped() const;
  void skip(const std::string& reason, std::int64_t line, std::int64_t bytes = 0);
};

// One sentence: "FILE: 3 rows were left out: wrong number of fields 2 (first in line 7), NUL byte 1 (first in
// line 9)". Empty if none were.
std::string describe_skipped(const std::filesystem::path& file, const TableCounts& counts);

// The rows of a TSV, CSV, JSONL or text file, plain or gzip-compressed, read in a stream. Fields are
// well-formed UTF-8 without NUL. Blank lines are no rows, save those inside a quoted field. JSON numbers and
// truth values are given as they are written, lists of texts with a space between them; null and NaN are
// absent fields (json_members.h).
class TableReader {
 public:
  // Error if the file cannot be read, UnsuitableTable if it is no table of UTF-8 text, is of another format
  // than its name says, lacks one of `columns` or has it twice (TSV, CSV).
  TableReader(const std::filesystem::path& path, TableOptions options);

  // False at the end. Rows that are malformed are passed over and counted. Error if the file is damaged
  // (DamagedFile), a quoted field never ends, or, at the end, rows were found but none was whole
  // (UnsuitableTable).
  bool next(TableRow& row);

  const TableCounts& counts() const { return counts_; }
  // Bytes that no row holds if reading ended with an Error: what had been read of one, and of the file as it
  // lies on the disk what had not been read.
  std::int64_t lost() const { return lines_.unread() + static_cast<std::int64_t>(record_.size()); }
  const std::filesystem::path& path() const { return lines_.path(); }
  TableFormat format() const { return format_; }
  // Names from the header; of JSONL, the members of the first object; "1", "2", … without a header.
  const std::vector<std::string>& columns() const { return header_; }

 private:
  enum class Record : std::uint8_t { row, skipped, end };
  TableFormat find_format();
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
  TableFormat format_;
  std::vector<std::string> wanted_;  // columns, then optional
  std::vector<std::string> header_;
  std::vector<std::int64_t> places_;  // of the wanted columns in a row; -1: absent
  std::string record_, line_;
  std::int64_t record_line_ = 0;
  std::int64_t record_bytes_ = 0;
  bool pending_ = false;  // record_ holds the first row already
  std::vector<std::string> fields_;
  TableCounts counts_;
};

// The format that a file's name says, in capital or small letters: .tsv .tab, .csv, .jsonl .json .ndjson,
// .txt .text; .gz may follow, and the number of a rotated file. `automatic` if it says none.
TableFormat format_of(const std::filesystem::path& path);
// The format of a file: by its name, or else by its content, as TableReader reads it. Errors: TableReader's.
TableFormat found_format_of(const std::filesystem::path& path);

}  // namespace comera::data
