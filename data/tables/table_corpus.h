#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/corpus/corpus.h"
#include "data/corpus/file_walk.h"
#include "data/tables/table_reader.h"

namespace comera::data {

struct TableCorpusOptions {
  std::vector<std::filesystem::path>
      inputs;  // folders or files; a file given by name is read whatever its suffix
  // Each list of columns makes one document of a row: its non-empty fields, separated by line ends.
  std::vector<std::vector<std::string>> documents;
  TableFormat format = TableFormat::automatic;
  bool header = true;                               // for TSV and CSV; see TableOptions
  std::optional<std::string> language_column = {};  // if absent: "language", if the table has it
  std::vector<std::string> languages = {};          // only rows with these; empty: all
  std::int64_t min_bytes = 1;                       // of a document
  std::optional<std::int64_t> max_bytes =
      {};  // above it a document is dropped; absent: cut above usual_max_bytes
};

// Documents from the rows of tables (TSV, CSV, JSON, plain text; plain or gzip), in the order of FileWalk. A
// table given by name that is unsuitable (a missing or duplicate column, no well-formed row, unreadable) is
// an Error. One found in a folder is counted instead: "other suffix", "other columns" (unsuitable, or no
// object has them), "malformed table" (an unreadable header, an unterminated quote), "unreadable"; if it
// lacks a well-formed row for other reasons, its rows are counted. The readable part of a damaged gzip file
// is used, and the rest is counted as "damaged file". The counts' notes name these files, and every file with
// malformed rows, which are counted by TableReader's reasons. A JSON null is an empty field. Documents are
// dropped as "other language", "empty", "too small", "too large" or "duplicate". Memory: that of FileWalk,
// one row, and the hashes of the documents so far.
class TableCorpus : public DocumentSource {
 public:
  // UsageError if an input does not exist or no column is given.
  explicit TableCorpus(TableCorpusOptions options);
  bool next(Document& document) override;
  CorpusCounts counts() const override { return counts_; }

 private:
  bool open_table();
  bool next_row();
  void close_table();
  void pass_over(const char* reason, std::int64_t bytes, const std::string& note);
  void pass_over_unsuitable(const std::string& note);
  template <class Work>
  bool guarded(Work&& work);
  bool take(const std::vector<std::size_t>& fields, Document& document);
  bool deliver(std::string text, Document& document);

  TableCorpusOptions options_;
  FileWalk walk_;
  FileWalk::File file_;
  std::optional<TableReader> table_;
  TableOptions table_options_;
  std::vector<std::vector<std::size_t>> documents_;  // for each document of a row: its fields
  std::size_t language_field_ = 0;
  TableRow row_;
  std::size_t next_document_;      // of the row
  std::deque<std::string> parts_;  // of a long document
  storage::HashSet hashes_;
  CorpusCounts counts_;
};

// Whether a file in a folder counts as a table: its name indicates a format (format_of), or begins with part-
// and a digit, as distributed writers name their parts.
bool is_table_name(const std::filesystem::path& path);

}  // namespace comera::data
