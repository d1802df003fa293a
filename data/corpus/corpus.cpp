#include "data/corpus/corpus.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "data/corpus/file_content.h"
#include "data/tables/table_reader.h"
#include "data/tokenizers/text/utf8.h"
#include "kernels/core/check.h"

namespace comera::data {
namespace {

// The suffix before that of a compression: ".txt" of "a.txt.zst".
std::string suffix_of(const std::filesystem::path& path) {
  std::string suffix = path.extension().string();
  std::ranges::transform(suffix, suffix.begin(), [](unsigned char c) { return std::tolower(c); });
  return suffix == ".gz" || suffix == ".zst" ? path.stem().extension().string() : suffix;
}

const char* fault_of(std::string_view text) {
  if (is_wide_text(text)) return "UTF-16";
  if (text.find('\0') != std::string_view::npos) return "binary";
  return is_utf8(text) ? nullptr : "invalid UTF-8";
}

bool looks_like_table(const std::filesystem::path& path, std::string_view text) {
  const TableFormat format = format_of(path);
  return format != TableFormat::text &&
         (format != TableFormat::automatic || holds_json_objects(text.substr(0, 1 << 14)));
}

// What a file given by name is refused with.
[[noreturn]] void refuse(const std::filesystem::path& path, std::string_view reason, std::string_view text) {
  const std::string content = what_is_wrong_with(text.substr(0, 1 << 14));
  throw UsageError(!content.empty() ? fmt::format("{}: {}", path.string(), content)
                   : reason == "binary"
                       ? fmt::format("{}: is not text: it has bytes that are zero; omit it", path.string())
                       : fmt::format("{}: is not UTF-8; convert it: iconv -f ENCODING -t UTF-8 FILE > NEW",
                                     path.string()));
}

}  // namespace

FileCorpus::FileCorpus(CorpusOptions options) : options_(std::move(options)), walk_(options_.inputs) {
  const std::int64_t least = options_.min_bytes.value_or(0);
  if (least < 0 || max_bytes() < least)
    throw UsageError(
        fmt::format("the size limits of a file, {} to {} bytes, leave nothing", least, max_bytes()));
  const auto known = known_languages();
  for (const std::string& language : options_.languages)
    if (!std::binary_search(known.begin(), known.end(), language))
      throw UsageError(
          fmt::format("unknown language '{}': choose from {}", language, fmt::join(known, ", ")));
}

// Reads the file once, so that nothing is delivered of one that turns out not to be text. Returns why it is
// dropped.
const char* FileCorpus::open_text(const FileWalk::File& file, DocumentUnit unit) {
  std::string text, first;
  std::int64_t count = 0;
  for (TextDocuments documents(file.path, unit, max_bytes()); documents.next(text); ++count) {
    if (unit == DocumentUnit::file && static_cast<std::int64_t>(text.size()) > max_bytes()) {
      if (!file.named || options_.max_bytes) return "too large";
      return open_text(file, DocumentUnit::automatic);
    }
    if (const char* fault = fault_of(text)) {
      if (file.named) refuse(file.path, fault, text);
      return fault;
    }
    if (count == 0) first = text;
  }
  if (count == 0) return "too small";
  if (file.named && looks_like_table(file.path, first))
    counts_.note(fmt::format(
        "{}: was read as text, with its quotes and brackets; --text COLUMN reads a column of its rows",
        file.path.string()));
  if (count == 1)
    only_ = std::move(first);
  else
    documents_.emplace(file.path, unit, max_bytes());
  return nullptr;
}

bool FileCorpus::open(const FileWalk::File& file) {
  const auto reject = [&](const char* reason) {
    counts_.drop(reason, file.bytes);
    return false;
  };
  language_ = language_of(suffix_of(file.path));
  if (language_.empty() && file.named) language_ = "text";
  if (language_.empty()) return reject("other suffix");
  const auto& wanted = options_.languages;
  if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), language_) == wanted.end())
    return reject("other language");
  try {
    const char* reason = open_text(file, is_prose(language_) ? options_.document : DocumentUnit::file);
    return reason == nullptr || reject(reason);
  } catch (const storage::ReadFailure& failure) {
    if (file.named)
      throw UsageError(fmt::format("{}: could not be read: {}", file.path.string(), failure.what()));
    return reject("unreadable");
  } catch (const storage::DamagedData& damage) {
    const std::string what =
        fmt::format("{}: damaged compressed data: {}; download or compress the file again",
                    file.path.string(), damage.what());
    if (file.named) throw UsageError(what);
    counts_.note(what);
    return reject("damaged file");
  }
}

void refuse_mostly_dropped(const CorpusOptions& options, const std::string& limit) {
  if (options.max_bytes) return;
  FileWalk walk(options.inputs);
  Dropped large, rest;
  std::string first;
  DroppedByReason ignored;
  for (FileWalk::File file; walk.next(file, ignored);) {
    const std::string_view language = language_of(suffix_of(file.path));
    const bool chosen = options.languages.empty() ||
                        std::ranges::find(options.languages, language) != options.languages.end();
    if ((language.empty() && !file.named) || !chosen) continue;
    const bool is_file = !is_prose(language) || options.document == DocumentUnit::file;
    const bool too_large = is_file && !file.named && file.bytes > usual_max_bytes;
    if (too_large && first.empty()) first = file.path.string();
    (too_large ? large : rest).add(file.bytes);
  }
  if (large.bytes > rest.bytes)
    throw UsageError(
        fmt::format("more than half of the input would be left out as too large: {}, such as {}; give {} "
                    "another limit than {} "
                    "bytes, or this one to leave them out",
                    count_and_bytes(large), first, limit, usual_max_bytes));
}

bool FileCorpus::take(std::string& text, Document& document) {
  const auto size = static_cast<std::int64_t>(text.size());
  const auto reject = [&](const char* reason) {
    counts_.drop(reason, size);
    return false;
  };
  constexpr std::int64_t smallest_file = 32;
  const std::int64_t least = options_.min_bytes.value_or(documents_ ? 1 : smallest_file);
  if (size < std::max<std::int64_t>(least, 1)) return reject("too small");
  document.hash = storage::hash128(text);
  if (!hashes_.insert(document.hash)) return reject("duplicate");
  document.text = std::move(text);
  document.name = file_.path.string();
  document.language = language_;
  counts_.add(document);
  return true;
}

// Of a file that was whole when it was opened.
bool FileCorpus::next_part(std::string& text) {
  try {
    if (!documents_->next(text)) return false;
  } catch (const Error& error) {
    throw Error(fmt::format("{}: has changed while it was read: {}", file_.path.string(), error.what()));
  }
  if (fault_of(text) != nullptr)
    throw Error(fmt::format("{}: has changed while it was read", file_.path.string()));
  return true;
}

bool FileCorpus::next(Document& document) {
  for (;;) {
    if (std::optional<std::string> only = std::exchange(only_, std::nullopt)) {
      if (take(*only, document)) return true;
    } else if (documents_) {
      std::string text;
      if (!next_part(text))
        documents_.reset();
      else if (take(text, document))
        return true;
    } else if (!walk_.next(file_, counts_.dropped)) {
      return false;
    } else {
      open(file_);
    }
  }
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
