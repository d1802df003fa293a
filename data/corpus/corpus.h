#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/corpus/documents/text_documents.h"
#include "data/corpus/dropped.h"
#include "data/corpus/file_walk.h"
#include "storage/hash.h"

namespace comera::data {

struct Document {
  std::string text;       // well-formed UTF-8 without NUL
  std::string name;       // its origin, for messages
  std::string language;   // empty: unknown
  storage::Hash128 hash;  // of text
  // Whether it belongs to the held-out part; if absent, its content decides (is_held_out).
  std::optional<bool> held_out = {};
};

struct LanguageCounts {
  std::int64_t documents = 0;
  std::int64_t bytes = 0;
  std::int64_t near_duplicates = 0;  // dropped documents, which are not counted above

  void add(const Document& document);
};

// A reason for dropping: see WithoutNearDuplicates.
inline constexpr const char* near_duplicate = "near duplicate";

// What a source delivered and what it dropped, by reason.
struct CorpusCounts {
  std::int64_t documents = 0;
  std::int64_t bytes = 0;
  std::map<std::string, LanguageCounts> languages;
  DroppedByReason dropped;  // see the options of each source
  // Messages about single files, a sentence each: the first ones, and the number of further ones.
  std::vector<std::string> notes;
  std::int64_t more_notes = 0;

  // Counts a dropped item.
  void drop(const std::string& reason, std::int64_t size) { dropped[reason].add(size); }

  // Counts a delivered document. The first 256 languages are counted by name.
  void add(const Document& document);
  // Adds the counts of another source. The limit for its notes is that of one source.
  void add(const CorpusCounts& other);
  // Counts documents as dropped that were counted as delivered.
  void take_back(const std::string& language, const LanguageCounts& given, const std::string& reason);
  void note(std::string sentence);
};

// "3 (1240 bytes)"; "3" if their size is unknown.
std::string count_and_bytes(const Dropped& dropped);
// "no document of the input was kept: other suffix: 3 (1240 bytes); …", with the first notes and the remedy.
std::string nothing_was_kept(const CorpusCounts& counts);

// A stream of documents: a tree of files, or anything else that can produce them one by one.
class DocumentSource {
 public:
  virtual ~DocumentSource() = default;
  // False at the end.
  virtual bool next(Document& document) = 0;
  // So far.
  virtual CorpusCounts counts() const = 0;
};

// The size above which a document is dropped or cut if no limit is given.
constexpr std::int64_t usual_max_bytes = 1 << 20;

struct CorpusOptions {
  std::vector<std::filesystem::path>
      inputs;  // folders or files; a file given by name is read whatever its suffix
  std::vector<std::string> languages = {};          // empty: all known ones
  DocumentUnit document = DocumentUnit::automatic;  // of prose
  std::optional<std::int64_t> min_bytes = {};  // of a document; absent: 32 for a file, 1 for a part of one
  std::optional<std::int64_t> max_bytes = {};  // of a document that is a whole file; absent: usual_max_bytes
};

// Delivers each file of code with a known suffix as one document, and prose (text, Markdown) as documents of
// options.document, in the order of FileWalk; .gz and .zst may follow the suffix. Without max_bytes, a file
// of code that is given by name and is larger is cut as prose is. Reasons for dropping: "other suffix",
// "other language", "too small", "too large", "binary" (a NUL byte), "UTF-16" (or UTF-32), "invalid UTF-8",
// "damaged file" (compressed), "duplicate", and those of FileWalk. A file given by name is refused for what
// it holds instead: binary data, other encodings, damage. One that looks like a table is read as text, with a
// note. Memory: that of FileWalk, one document, and the hashes of the documents so far.
class FileCorpus : public DocumentSource {
 public:
  // UsageError if an input does not exist or a language is unknown.
  explicit FileCorpus(CorpusOptions options);
  // UsageError for a file given by name that is not text.
  bool next(Document& document) override;
  CorpusCounts counts() const override { return counts_; }

 private:
  bool open(const FileWalk::File& file);
  const char* open_text(const FileWalk::File& file, DocumentUnit unit);
  bool next_part(std::string& text);
  bool take(std::string& text, Document& document);
  std::int64_t max_bytes() const { return options_.max_bytes.value_or(usual_max_bytes); }

  CorpusOptions options_;
  FileWalk walk_;
  FileWalk::File file_;
  std::string language_;
  std::optional<std::string> only_;         // the text of a file that is one document
  std::optional<TextDocuments> documents_;  // of a file that is several
  storage::HashSet hashes_;
  CorpusCounts counts_;
};

// UsageError if the usual limit of size (no options.max_bytes) would drop more than half of the bytes that
// the options choose. limit: the option that sets another. Reads folders, no files.
void refuse_mostly_dropped(const CorpusOptions& options, const std::string& limit);

// "python" for ".py"; "" if the suffix is unknown.
std::string_view language_of(std::string_view suffix);
// Whether a language is prose: text, Markdown.
bool is_prose(std::string_view language);
// Every known language, sorted.
std::vector<std::string> known_languages();

// Whether the document belongs to the held-out part: decided by its content alone, so that it does not change
// when the corpus grows. fraction: 0 to 1.
bool is_held_out(const storage::Hash128& hash, double fraction);

}  // namespace comera::data
