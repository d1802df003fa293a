#include "exchange/export_folder.h"

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
  if (std::filesystem::is_empty(folder, code)) return;
  if (!holds_export(folder))
    throw UsageError(
        fmt::format("--to {}: the folder holds something else; give a new one", folder.string()));
  if (!overwrite)
    throw UsageError(
        fmt::format("--to {}: holds a model already; give another folder, or --overwrite", folder.string()));
}

ExportFolder::ExportFolder(const std::filesystem::path& folder, bool overwrite)
    : folder_(storage::from_root(folder).lexically_normal()) {
  if (!folder_.has_filename()) folder_ = folder_.parent_path();
  // What a link leads to is replaced, and the link stays.
  std::error_code code;
  if (const auto real = std::filesystem::canonical(folder_, code); !code) folder_ = real;
  staging_ = with_suffix(folder_, ".partial");
  made_.emplace(staging_);
  lock_.emplace(staging_, "exporting");
  check_export_target(folder_, overwrite);
  for (const std::filesystem::path& entry : storage::entries_of(staging_))
    COMERA_CHECK(is_of_export(entry), "{}: is in the way, and holds something else than an export; move it",
                 staging_.string());
  for (const std::filesystem::path& entry : storage::entries_of(staging_))
    std::filesystem::remove(entry, code);
}

ExportFolder::~ExportFolder() {
  std::error_code ignored;
  if (!lock_) return;
  for (const std::filesystem::path& entry : storage::entries_of(staging_, ignored))
    if (is_of_export(entry)) std::filesystem::remove(entry, ignored);
  std::filesystem::remove(staging_, ignored);
}

void ExportFolder::commit() {
  std::error_code code;
  if (const auto before = std::filesystem::status(folder_, code); std::filesystem::is_directory(before))
    std::filesystem::permissions(staging_, before.permissions(), code);
  for (const std::filesystem::path& file : storage::entries_of(staging_)) storage::sync_file(file);
  storage::sync_directory(staging_);
  storage::swap_folders(staging_, folder_);
  // What is not an export's was the user's, and stays with the name.
  for (const std::filesystem::path& entry : storage::entries_of(staging_, code))
    if (!is_of_export(entry)) storage::rename_durably(entry, folder_ / entry.filename());
}

}  // namespace comera::exchange
