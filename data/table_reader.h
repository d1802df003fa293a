#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/line_reader.h"

namespace comera::data {

// A table that lacks a wanted column or has it twice, or of whose rows none is whole.
class UnsuitableTable : public Error {
 public:
  using Error::Error;
};

enum class TableFormat : std::uint8_t {
  automatic,  // by the name: .tsv, .csv, .jsonl (also .json, .ndjson), anything else is text; .gz may follow
  tsv,        // fields between tabs; quotes mean nothing, as in GLUE
  csv,        // fields between commas, quoted as in RFC 4180; a quoted field may span lines
  jsonl,      // one JSON object per line; a column is a member of it
  text,       // one column, "text": each line is a row
};

struct TableOptions {
  TableFormat format = TableFormat::automatic;
  bool header = true;                      // of TSV and CSV; without one the columns are called 1, 2, 3, …
  std::vector<std::string> columns = {};   // wanted, some perhaps twice; every row has them
  std::vector<std::string> optional = {};  // wanted if the file has them
  std::int64_t longest_row = LineReader::default_longest;  // bytes
};

struct TableRow {
  std::int64_t line = 0;                           // where it begins, from 1
  std::vector<std::optional<std::string>> fields;  // of columns, then of optional
};

// How many rows were given, and how many were passed over for which reason: "too long", "NUL byte", "invalid
// UTF-8", "wrong number of fields", "not a JSON object", "missing field", "doubled field", "field is not
// text".
struct TableCounts {
  struct Skipped {
    std::int64_t rows = 0;
    std::int64_t first_line = 0;
  };
  std::int64_t rows = 0;
  std::map<std::string, Skipped> skipped;

  std::int64_t all_skipped() const;
  void skip(const std::string& reason, std::int64_t line);
};

// One sentence: "FILE: 3 rows were left out: wrong number of fields 2 (first in line 7), NUL byte 1 (first in
// line 9)". Empty if none were.
std::string describe_skipped(const std::filesystem::path& file, const TableCounts& counts);

// The rows of a TSV, CSV, JSONL or text file, plain or gzip-compressed, read in a stream. Fields are
// well-formed UTF-8 without NUL. Blank lines are no rows, save those inside a quoted field. JSON numbers and
// truth values are given as they are written, null is an absent field.
class TableReader {
 public:
  // Error if the file cannot be read, UnsuitableTable if it lacks one of `columns` or has it twice (TSV,
  // CSV).
  TableReader(const std::filesystem::path& path, TableOptions options);

  // False at the end. Rows that are malformed are passed over and counted. Error if the file is damaged
  // (DamagedFile), a quoted field never ends, or, at the end, rows were found but none was whole
  // (UnsuitableTable).
  bool next(TableRow& row);

  const TableCounts& counts() const { return counts_; }
  const std::filesystem::path& path() const { return lines_.path(); }
  TableFormat format() const { return format_; }
  // Names from the header; of JSONL, the members of the first object; "1", "2", … without a header.
  const std::vector<std::string>& columns() const { return header_; }

 private:
  enum class Record : std::uint8_t { row, skipped, end };
  Record read_record();  // into record_
  void read_header();
  void split_record(std::vector<std::string>& fields) const;
  void find_columns();
  std::string how_read() const;
  bool take_fields(TableRow& row);
  bool take_object(TableRow& row);
  Record skip(const char* reason);

  TableOptions options_;
  LineReader lines_;
  TableFormat format_;
  std::vector<std::string> wanted_;  // columns, then optional
  std::vector<std::string> header_;
  std::vector<std::int64_t> places_;  // of the wanted columns in a row; -1: absent
  std::string record_, line_;
  std::int64_t record_line_ = 0;
  bool pending_ = false;  // record_ holds the first row already
  std::vector<std::string> fields_;
  TableCounts counts_;
};

// The format that a file's name says.
TableFormat format_of(const std::filesystem::path& path);

}  // namespace comera::data
