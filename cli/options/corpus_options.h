#pragma once

#include <CLI/CLI.hpp>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/corpus/corpus.h"
#include "training/logging/progress.h"

namespace comera::cli {

// A corpus of files, or, with columns of text, one of tables.
struct CorpusInput {
  std::vector<std::filesystem::path> inputs;
  std::vector<std::string> languages;
  std::vector<std::string> text;  // each makes a document of a row: column names between commas
  std::optional<std::string> language_column;
  std::string format;  // of tables; empty: as it is found
  bool no_header = false;
  std::optional<std::int64_t> min_bytes;  // not given: the source's own
  std::int64_t max_bytes = 1 << 20;
  std::vector<std::filesystem::path> held_out;  // of shards: documents of these are held out, and no others
  std::optional<double> near_duplicates;        // the similarity from which on they are dropped
};

// --input, --text, --language-column, --no-header, --languages, --min-bytes and the upper limit, shared by
// the commands that read a corpus. Gives --input, which the others need.
CLI::Option* add_corpus_options(CLI::App& command, CorpusInput& input, const char* max_bytes_name);

// UsageError if they name no corpus.
std::unique_ptr<data::DocumentSource> open_corpus(const CorpusInput& input);

// Shows on stderr how much of a corpus has been read, and how fast.
class CorpusProgress {
 public:
  explicit CorpusProgress(const char* what) : bar_(what) {}
  void update(std::int64_t documents, std::int64_t bytes);

 private:
  ProgressBar bar_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// Prints how many documents were taken, by language, and how many files, rows or documents were not, by
// reason, with their bytes and the option that changes it.
void print_account(const char* kept, std::int64_t documents, std::int64_t bytes,
                   const std::map<std::string, data::LanguageCounts>& languages, const char* left_out,
                   const data::DroppedByReason& dropped);
// That of a corpus; on stderr, what is to be said about single files.
void print_corpus_counts(const data::CorpusCounts& counts);

}  // namespace comera::cli
