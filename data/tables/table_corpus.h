#pragma once

#include <cstdint>
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
      inputs;  // folders or files; a file that is named is read whatever its suffix
  // Each list of columns makes one document of a row: its fields that are not empty, a line end between them.
  std::vector<std::vector<std::string>> documents;
  TableFormat format = TableFormat::automatic;
  bool header = true;                          // of TSV and CSV; see TableOptions
  std::optional<std::string> language_column;  // not given: "language", if the table has it
  std::vector<std::string> languages;          // rows with these only; empty: all
  std::int64_t min_bytes = 1;                  // of a document
  std::int64_t max_bytes = 1 << 20;
};

// Documents from the rows of tables (TSV, CSV, JSON, plain text; plain or gzip), in the order of FileWalk.
// A table that is named and unsuitable (a column is missing or doubled, no row is whole, it cannot be read)
// is an Error. One that was found in a folder is counted: "other suffix", "other columns" (unsuitable, or no
// object has them), "malformed table" (an unreadable header, a quote that never ends), "unreadable"; of one
// without a whole row for other reasons, its rows. A damaged gzip file gives what could be read of it, and
// what is left of it is counted as "damaged file". The counts' notes name these files, and every file that
// had malformed rows, which are counted by TableReader's reasons. A JSON null is an empty field. Documents
// are dropped as "other language", "empty", "too small", "too large" or "duplicate". Memory: that of
// FileWalk, one row, and the hashes of the documents so far.
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

  TableCorpusOptions options_;
  FileWalk walk_;
  FileWalk::File file_;
  std::optional<TableReader> table_;
  TableOptions table_options_;
  std::vector<std::vector<std::size_t>> documents_;  // for each document of a row: its fields
  std::size_t language_field_ = 0;
  TableRow row_;
  std::size_t next_document_;  // of the row
  storage::HashSet hashes_;
  CorpusCounts counts_;
};

// Whether a file in a folder is taken for a table: its name says a format (format_of), or begins with part-
// and a digit, as distributed writers call their parts.
bool is_table_name(const std::filesystem::path& path);

}  // namespace comera::data
