#include "exchange/export_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "exchange/export_model.h"
#include "exchange/model_card.h"
#include "kernels/core/check.h"
#include "storage/durable_file.h"
#include "storage/folder.h"

namespace comera::exchange {

namespace {

bool is_of_export(const std::filesystem::path& entry) {
  const std::vector<std::string> ours = exported_files();
  const std::string name = entry.filename().string();
  return std::ranges::find(ours, name) != ours.end() || name.ends_with(".comera-tmp");
}

constexpr const char* staged_within = ".comera-export.partial";

bool holds_nothing(const std::filesystem::path& folder) {
  std::error_code code;
  return std::ranges::all_of(storage::entries_of(folder, code), [](const std::filesystem::path& entry) {
    return entry.filename() == staged_within;
  });
}

bool can_be_replaced(const std::filesystem::path& folder) {
  struct stat own {
  }, above{};
  const std::filesystem::path parent = folder.parent_path();
  return stat(folder.c_str(), &own) != 0 || stat(parent.c_str(), &above) != 0 ||
         (own.st_dev == above.st_dev && access(parent.c_str(), W_OK) == 0);
}

// With those of folders in it.
void sync_files(const std::filesystem::path& folder) {
  std::error_code code;
  for (const std::filesystem::path& entry : storage::entries_of(folder))
    if (std::filesystem::is_directory(entry, code))
      sync_files(entry);
    else
      storage::sync_file(entry);
  storage::sync_directory(folder);
}

std::filesystem::path with_suffix(std::filesystem::path path, const char* suffix) { return path += suffix; }

}  // namespace

bool holds_export(const std::filesystem::path& folder) {
  std::ifstream card(folder / "README.md");
  for (std::string line; std::getline(card, line);)
    if (line == model_card_tag) return true;
  return false;
}

void check_export_target(const std::filesystem::path& folder, bool overwrite) {
  std::error_code code;
  if (!storage::is_taken(folder)) return;
  if (!std::filesystem::is_directory(folder, code))
    throw UsageError(fmt::format("--to {}: is a file; give a folder", folder.string()));
  if (holds_nothing(folder)) return;
  if (!holds_export(folder))
    throw UsageError(fmt::format("--to {}: the folder holds other files; give a new one", folder.string()));
  if (!overwrite)
    throw UsageError(
        fmt::format("--to {}: already holds a model; give another folder, or --overwrite", folder.string()));
}

ExportFolder::ExportFolder(const std::filesystem::path& folder, bool overwrite)
    : folder_(storage::from_root(folder).lexically_normal()) {
  if (!folder_.has_filename()) folder_ = folder_.parent_path();
  // If it is a link, its target is replaced, and the link is kept.
  std::error_code code;
  if (const auto real = std::filesystem::canonical(folder_, code); !code) folder_ = real;
  in_place_ = !can_be_replaced(folder_);
  staging_ = in_place_ ? folder_ / staged_within : with_suffix(folder_, ".partial");
  made_.emplace(staging_);
  lock_.emplace(staging_, "exporting");
  check_export_target(folder_, overwrite);
  for (const std::filesystem::path& entry : storage::entries_of(staging_))
    COMERA_CHECK(is_of_export(entry), "{}: is in the way and is not an export; move it", staging_.string());
  for (const std::filesystem::path& entry : storage::entries_of(staging_))
    std::filesystem::remove_all(entry, code);
}

ExportFolder::~ExportFolder() {
  std::error_code ignored;
  if (!lock_) return;
  for (const std::filesystem::path& entry : storage::entries_of(staging_, ignored))
    if (is_of_export(entry)) std::filesystem::remove_all(entry, ignored);
  std::filesystem::remove(staging_, ignored);
}

void ExportFolder::commit() {
  std::error_code code;
  if (const auto before = std::filesystem::status(folder_, code); std::filesystem::is_directory(before))
    std::filesystem::permissions(staging_, before.permissions(), code);
  sync_files(staging_);
  if (in_place_) return commit_in_place();
  if (std::filesystem::is_directory(folder_, code)) lock_of_old_.emplace(folder_, "exporting");
  storage::swap_folders(staging_, folder_);
  // Other files belonged to the user, and are kept in the folder.
  for (const std::filesystem::path& entry : storage::entries_of(staging_, code))
    if (!is_of_export(entry)) storage::rename_durably(entry, folder_ / entry.filename());
}

void ExportFolder::commit_in_place() const {
  std::vector<std::string> files = exported_files();
  // It marks the folder as an export, even if this is interrupted.
  std::stable_partition(files.begin(), files.end(),
                        [](const std::string& file) { return file == "README.md"; });
  std::error_code code;
  std::filesystem::remove(folder_ / "config.json", code);
  storage::sync_directory(folder_);
  const auto put = [&](const std::string& file) {
    const bool is_new = storage::exists(staging_ / file);
    // A folder is no replacement for another.
    if (!is_new || std::filesystem::is_directory(folder_ / file, code))
      std::filesystem::remove_all(folder_ / file, code);
    if (is_new) storage::rename_durably(staging_ / file, folder_ / file);
  };
  for (const std::string& file : files)
    if (file != "config.json") put(file);
  put("config.json");
}

}  // namespace comera::exchange
