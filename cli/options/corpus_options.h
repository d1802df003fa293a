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

// A corpus of files or, if text columns are given, of tables.
struct CorpusInput {
  std::vector<std::filesystem::path> inputs;
  std::vector<std::string> languages;
  std::vector<std::string> text;  // each makes a document of a row: comma-separated column names
  std::optional<std::string> language_column;
  std::string format;  // of tables; empty: detected
  bool no_header = false;
  std::string document = "auto";          // of prose: auto, file, paragraph or line
  std::optional<std::int64_t> min_bytes;  // if absent: the source's default
  std::optional<std::int64_t> max_bytes;
  std::string max_bytes_option;                 // its name in the command
  std::vector<std::filesystem::path> held_out;  // of shards: exactly the documents from here are held out
  std::optional<double> near_duplicates;        // the similarity at which documents are dropped
};

// --input, --text, --document, --language-column, --no-header, --languages, --min-bytes and the upper limit,
// shared by the commands that read a corpus. Returns --input, which the others need.
CLI::Option* add_corpus_options(CLI::App& command, CorpusInput& input, const char* max_bytes_name);

// UsageError if they name no corpus.
std::unique_ptr<data::DocumentSource> open_corpus(const CorpusInput& input);

// Shows on stderr how much of a corpus has been read, and the speed.
class CorpusProgress {
 public:
  explicit CorpusProgress(const char* what) : bar_(what) {}
  void update(std::int64_t documents, std::int64_t bytes);

 private:
  ProgressBar bar_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// Prints the number of documents kept, by language, and of files, rows or documents dropped, by reason, with
// their bytes and the option that changes it.
void print_account(const char* kept, std::int64_t documents, std::int64_t bytes,
                   const std::map<std::string, data::LanguageCounts>& languages, const char* left_out,
                   const data::DroppedByReason& dropped);
// The same for a corpus; also prints messages about single files on stderr.
void print_corpus_counts(const data::CorpusCounts& counts);

}  // namespace comera::cli
