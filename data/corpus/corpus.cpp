#include "data/corpus/corpus.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "data/corpus/file_content.h"
#include "data/tables/table_reader.h"
#include "data/tokenizers/text/utf8.h"
#include "kernels/core/check.h"

namespace comera::data {
namespace {

// The file's bytes, at most limit + 1 of them; nothing if it cannot be read.
std::optional<std::string> read_bytes(const std::filesystem::path& path, std::int64_t expected,
                                      std::int64_t limit) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return std::nullopt;
  std::string bytes;
  std::size_t count = 0;
  // One byte more than expected, so that the end of the file is detected without growing.
  bytes.resize(static_cast<std::size_t>(std::min(expected, limit) + 1));
  for (;;) {
    const ssize_t got = ::read(file, bytes.data() + count, bytes.size() - count);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      ::close(file);
      return std::nullopt;
    }
    count += static_cast<std::size_t>(got);
    if (got == 0 || static_cast<std::int64_t>(count) > limit) break;
    if (count == bytes.size())
      bytes.resize(std::min<std::size_t>(2 * count, static_cast<std::size_t>(limit) + 1));
  }
  ::close(file);
  bytes.resize(count);
  return bytes;
}

}  // namespace

FileCorpus::FileCorpus(CorpusOptions options) : options_(std::move(options)), walk_(options_.inputs) {
  if (options_.min_bytes < 0 || options_.max_bytes < options_.min_bytes)
    throw UsageError(fmt::format("the size limits of a file, {} to {} bytes, leave nothing",
                                 options_.min_bytes, options_.max_bytes));
  const auto known = known_languages();
  for (const std::string& language : options_.languages)
    if (!std::binary_search(known.begin(), known.end(), language))
      throw UsageError(
          fmt::format("unknown language '{}': choose from {}", language, fmt::join(known, ", ")));
}

bool FileCorpus::take(const FileWalk::File& file, Document& document) {
  std::int64_t size = file.bytes;
  const auto reject = [&](const char* reason) {
    counts_.drop(reason, size);
    return false;
  };
  std::string_view language = language_of(file.path.extension().native());
  if (language.empty() && file.named) language = "text";
  if (language.empty()) return reject("other suffix");
  const auto& wanted = options_.languages;
  if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), language) == wanted.end())
    return reject("other language");
  if (file.bytes > options_.max_bytes) return reject("too large");
  auto bytes = read_bytes(file.path, file.bytes, options_.max_bytes);
  if (!bytes) return reject("unreadable");
  size = std::max(size, static_cast<std::int64_t>(bytes->size()));
  if (static_cast<std::int64_t>(bytes->size()) > options_.max_bytes) return reject("too large");
  size = static_cast<std::int64_t>(bytes->size());
  if (size < std::max<std::int64_t>(options_.min_bytes, 1)) return reject("too small");
  if (is_wide_text(*bytes)) return reject("UTF-16");
  if (bytes->find('\0') != std::string::npos) return reject("binary");
  if (!is_utf8(*bytes)) return reject("invalid UTF-8");
  if (file.named) note_table(file, *bytes);
  document.hash = storage::hash128(*bytes);
  if (!hashes_.insert(document.hash)) return reject("duplicate");
  document.text = std::move(*bytes);
  document.name = file.path.string();
  document.language = std::string(language);
  counts_.add(document);
  return true;
}

void FileCorpus::note_table(const FileWalk::File& file, std::string_view text) {
  const TableFormat format = format_of(file.path);
  if (format != TableFormat::text &&
      (format != TableFormat::automatic || holds_json_objects(text.substr(0, 1 << 14))))
    counts_.note(fmt::format(
        "{}: was read as one text, with its quotes and brackets; --text COLUMN reads a column of its rows",
        file.path.string()));
}

bool FileCorpus::next(Document& document) {
  for (FileWalk::File file; walk_.next(file, counts_.dropped);)
    if (take(file, document)) return true;
  return false;
}

namespace {

// The counts of a document's language. A source's first 256 languages are counted separately.
LanguageCounts& counts_of(std::map<std::string, LanguageCounts>& languages, const std::string& language) {
  constexpr std::size_t most_languages = 256;
  const bool one_more = languages.size() < most_languages || languages.contains(language);
  return languages[one_more ? language : "(others)"];
}

}  // namespace

void LanguageCounts::add(const Document& document) {
  ++documents;
  bytes += static_cast<std::int64_t>(document.text.size());
}

void CorpusCounts::add(const Document& document) {
  ++documents;
  bytes += static_cast<std::int64_t>(document.text.size());
  if (!document.language.empty()) counts_of(languages, document.language).add(document);
}

void CorpusCounts::add(const CorpusCounts& other) {
  documents += other.documents;
  bytes += other.bytes;
  for (const auto& [language, more] : other.languages) {
    LanguageCounts& counts = counts_of(languages, language);
    counts.documents += more.documents;
    counts.bytes += more.bytes;
    counts.near_duplicates += more.near_duplicates;
  }
  for (const auto& [reason, more] : other.dropped) dropped[reason].add(more);
  for (const std::string& sentence : other.notes) note(sentence);
  more_notes += other.more_notes;
}

void CorpusCounts::take_back(const std::string& language, const LanguageCounts& given,
                             const std::string& reason) {
  documents -= given.documents;
  bytes -= given.bytes;
  dropped[reason].add({.count = given.documents, .bytes = given.bytes});
  if (language.empty()) return;
  LanguageCounts& counts = counts_of(languages, language);
  counts.documents -= given.documents;
  counts.bytes -= given.bytes;
  if (reason == near_duplicate) counts.near_duplicates += given.documents;
}

std::string count_and_bytes(const Dropped& dropped) {
  return dropped.all_bytes_known ? fmt::format("{} ({} bytes)", dropped.count, dropped.bytes)
                                 : std::to_string(dropped.count);
}

std::string nothing_was_kept(const CorpusCounts& counts) {
  constexpr std::size_t shown = 3;
  std::string reasons;
  for (const auto& [reason, dropped] : counts.dropped)
    reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : ", ", reason, count_and_bytes(dropped));
  if (reasons.empty()) reasons = "it has no files, or only empty ones";
  for (std::size_t i = 0; i < std::min(shown, counts.notes.size()); ++i) reasons += "; " + counts.notes[i];
  const std::int64_t more =
      counts.more_notes + static_cast<std::int64_t>(counts.notes.size()) - static_cast<std::int64_t>(shown);
  if (more > 0) reasons += fmt::format("; and {} more such files", more);
  return fmt::format(
      "no document of the input was kept: {}; give other folders or single files, or --text COLUMN for "
      "tables",
      reasons);
}

void CorpusCounts::note(std::string sentence) {
  constexpr std::size_t most_notes = 20;
  if (notes.size() < most_notes)
    notes.push_back(std::move(sentence));
  else
    ++more_notes;
}

bool is_held_out(const storage::Hash128& hash, double fraction) {
  return storage::unit_interval(hash.high) < fraction;
}

}  // namespace comera::data
