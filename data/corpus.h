#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/hash.h"

namespace comera::data {

struct Document {
  std::string text;  // well-formed UTF-8 without NUL
  std::string name;  // where it came from, for messages
  std::string language;
  Hash128 hash;  // of text
};

struct LanguageCounts {
  std::int64_t documents = 0;
  std::int64_t bytes = 0;
};

// What a source gave and what it dropped, by reason.
struct CorpusCounts {
  std::int64_t documents = 0;
  std::int64_t bytes = 0;
  std::map<std::string, LanguageCounts> languages;
  std::map<std::string, std::int64_t> dropped;  // documents by reason; see CorpusOptions for the reasons
};

// A stream of documents: a tree of files, or anything else that can produce them one by one.
class DocumentSource {
 public:
  virtual ~DocumentSource() = default;
  // False at the end.
  virtual bool next(Document& document) = 0;
  // So far.
  virtual const CorpusCounts& counts() const = 0;
};

// Reasons for dropping: "other suffix", "other language", "too small", "too large", "binary" (a NUL byte),
// "invalid UTF-8", "duplicate", "unreadable", "broken link" (also a link to itself), "folder seen before"
// (a link back into the tree), "not a file" (pipes, sockets, devices).
struct CorpusOptions {
  std::vector<std::filesystem::path>
      inputs;                          // folders or files; a file that is named is taken whatever its suffix
  std::vector<std::string> languages;  // empty: all that are known
  std::int64_t min_bytes = 32;
  std::int64_t max_bytes = 1 << 20;
};

// Walks folders in sorted order and gives each file with a known suffix as one document. Links are followed,
// every folder is visited once. Folders whose name starts with a dot are left out.
// Memory: one folder's listing per level, one document, and the hashes of the documents so far.
class FileCorpus : public DocumentSource {
 public:
  // UsageError if an input does not exist or a language is unknown.
  explicit FileCorpus(CorpusOptions options);
  bool next(Document& document) override;
  const CorpusCounts& counts() const override { return counts_; }

 private:
  struct Entry {
    std::filesystem::path path;
    bool named = false;  // given by the user, not found
  };
  bool take(const Entry& entry, Document& document);
  void enter(const std::filesystem::path& folder, std::uint64_t device, std::uint64_t inode);
  void drop(const char* reason) { ++counts_.dropped[reason]; }

  CorpusOptions options_;
  std::vector<Entry> pending_;  // last first
  std::set<std::pair<std::uint64_t, std::uint64_t>> folders_;
  HashSet hashes_;
  CorpusCounts counts_;
};

// "python" for ".py"; "" if the suffix is not known.
std::string_view language_of(std::string_view suffix);
// Every known language, sorted.
std::vector<std::string> known_languages();

// Whether the document belongs to the held-out part: decided by its content alone, so that it stays where it
// is when the corpus grows. fraction: 0 to 1.
bool is_held_out(const Hash128& hash, double fraction);

}  // namespace comera::data
