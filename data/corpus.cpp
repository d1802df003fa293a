#include "data/corpus.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "data/utf8.h"
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
  // One byte more than the file should have, so that its end is seen without growing.
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

FileCorpus::FileCorpus(CorpusOptions options) : options_(std::move(options)) {
  if (options_.inputs.empty()) throw UsageError("no input was given: name at least one folder or file");
  if (options_.min_bytes < 0 || options_.max_bytes < options_.min_bytes)
    throw UsageError(fmt::format("the size limits of a file, {} to {} bytes, leave nothing",
                                 options_.min_bytes, options_.max_bytes));
  const auto known = known_languages();
  for (const std::string& language : options_.languages)
    if (!std::binary_search(known.begin(), known.end(), language))
      throw UsageError(
          fmt::format("unknown language '{}': choose from {}", language, fmt::join(known, ", ")));
  for (auto input = options_.inputs.rbegin(); input != options_.inputs.rend(); ++input) {
    std::error_code code;
    if (!std::filesystem::exists(*input, code))
      throw UsageError(fmt::format("{}: no such file or folder", input->string()));
    pending_.push_back({*input, true});
  }
}

void FileCorpus::enter(const std::filesystem::path& folder, std::uint64_t device, std::uint64_t inode) {
  if (!folders_.emplace(device, inode).second) return drop("folder seen before");
  std::error_code code;
  std::filesystem::directory_iterator listing(folder, code);
  if (code) return drop("unreadable");
  std::vector<Entry> entries;
  while (listing != std::filesystem::directory_iterator()) {
    entries.push_back({listing->path()});
    listing.increment(code);
    if (code) {
      drop("unreadable");
      break;
    }
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.path.native() > b.path.native(); });
  pending_.insert(pending_.end(), std::make_move_iterator(entries.begin()),
                  std::make_move_iterator(entries.end()));
}

bool FileCorpus::take(const Entry& entry, Document& document) {
  struct stat status {};
  if (::stat(entry.path.c_str(), &status) != 0) {
    drop(errno == ELOOP || errno == ENOENT ? "broken link" : "unreadable");
    return false;
  }
  if (S_ISDIR(status.st_mode)) {
    if (entry.named || !entry.path.filename().native().starts_with('.'))
      enter(entry.path, status.st_dev, status.st_ino);
    return false;
  }
  const auto reject = [&](const char* reason) {
    drop(reason);
    return false;
  };
  if (!S_ISREG(status.st_mode)) return reject("not a file");
  std::string_view language = language_of(entry.path.extension().native());
  if (language.empty() && entry.named) language = "text";
  if (language.empty()) return reject("other suffix");
  const auto& wanted = options_.languages;
  if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), language) == wanted.end())
    return reject("other language");
  if (status.st_size > options_.max_bytes) return reject("too large");
  auto bytes = read_bytes(entry.path, status.st_size, options_.max_bytes);
  if (!bytes) return reject("unreadable");
  const auto size = static_cast<std::int64_t>(bytes->size());
  if (size > options_.max_bytes) return reject("too large");
  if (size < std::max<std::int64_t>(options_.min_bytes, 1)) return reject("too small");
  if (bytes->find('\0') != std::string::npos) return reject("binary");
  if (!is_utf8(*bytes)) return reject("invalid UTF-8");
  document.hash = hash128(*bytes);
  if (!hashes_.insert(document.hash)) return reject("duplicate");
  document.text = std::move(*bytes);
  document.name = entry.path.string();
  document.language = std::string(language);
  ++counts_.documents;
  counts_.bytes += size;
  auto& counts = counts_.languages[document.language];
  ++counts.documents;
  counts.bytes += size;
  return true;
}

bool FileCorpus::next(Document& document) {
  while (!pending_.empty()) {
    const Entry entry = std::move(pending_.back());
    pending_.pop_back();
    if (take(entry, document)) return true;
  }
  return false;
}

bool is_held_out(const Hash128& hash, double fraction) { return unit_interval(hash.high) < fraction; }

}  // namespace comera::data
