#include "data/corpus/file_walk.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "kernels/core/check.h"

namespace comera::data {

FileWalk::FileWalk(const std::vector<std::filesystem::path>& inputs) {
  if (inputs.empty()) throw UsageError("no input was given: name at least one folder or file");
  for (auto input = inputs.rbegin(); input != inputs.rend(); ++input) {
    std::error_code code;
    if (!std::filesystem::exists(*input, code))
      throw UsageError(fmt::format("{}: no such file or folder", input->string()));
    pending_.push_back({*input, true});
  }
}

const char* FileWalk::enter(const std::filesystem::path& folder, std::uint64_t device, std::uint64_t inode) {
  if (!folders_.emplace(device, inode).second) return "folder seen before";
  std::error_code code;
  std::filesystem::directory_iterator listing(folder, code);
  if (code) return "unreadable";
  std::vector<Entry> entries;
  while (!code && listing != std::filesystem::directory_iterator()) {
    entries.push_back({listing->path()});
    listing.increment(code);
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.path.native() > b.path.native(); });
  pending_.insert(pending_.end(), std::make_move_iterator(entries.begin()),
                  std::make_move_iterator(entries.end()));
  return code ? "unreadable" : nullptr;
}

const char* FileWalk::take(const Entry& entry, File& file, bool& found) {
  struct stat status {};
  if (::stat(entry.path.c_str(), &status) != 0)
    return errno == ELOOP || errno == ENOENT ? "broken link" : "unreadable";
  if (S_ISDIR(status.st_mode)) {
    const bool hidden = !entry.named && entry.path.filename().native().starts_with('.');
    return hidden ? "hidden folder" : enter(entry.path, status.st_dev, status.st_ino);
  }
  if (!S_ISREG(status.st_mode)) return "not a file";
  file = {entry.path, status.st_size, entry.named};
  found = true;
  return nullptr;
}

bool FileWalk::next(File& file, DroppedByReason& dropped) {
  bool found = false;
  while (!found && !pending_.empty()) {
    const Entry entry = std::move(pending_.back());
    pending_.pop_back();
    if (const char* reason = take(entry, file, found)) {
      // Counts what was not examined, but not empty folders or those read elsewhere.
      const bool unknown =
          std::string_view(reason) == "hidden folder" || std::string_view(reason) == "unreadable";
      unknown ? dropped[reason].add_unknown() : dropped[reason].add(0);
    }
  }
  return found;
}

}  // namespace comera::data
