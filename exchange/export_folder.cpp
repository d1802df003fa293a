#include "exchange/export_folder.h"

#include <algorithm>
#include <fstream>

#include "exchange/export_model.h"
#include "exchange/model_card.h"
#include "kernels/core/check.h"
#include "storage/durable_file.h"
#include "storage/folder.h"

namespace comera::exchange {

bool holds_export(const std::filesystem::path& folder) {
  std::ifstream card(folder / "README.md");
  for (std::string line; std::getline(card, line);)
    if (line == model_card_tag) return true;
  return false;
}

ExportFolder::ExportFolder(const std::filesystem::path& folder)
    : folder_(storage::from_root(folder).lexically_normal()) {
  if (!folder_.has_filename()) folder_ = folder_.parent_path();
  staging_ = folder_;
  staging_ += ".partial";
  const std::vector<std::string> ours = exported_files();
  for (const std::filesystem::path& entry : storage::entries_of(staging_))
    COMERA_CHECK(std::ranges::find(ours, entry.filename().string()) != ours.end() ||
                     entry.filename().string().ends_with(".comera-tmp"),
                 "{}: is in the way, and holds something else than an export; move it", staging_.string());
  std::error_code code;
  std::filesystem::remove_all(staging_, code);
  storage::create_directories_durably(staging_);
}

ExportFolder::~ExportFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(staging_, ignored);
}

void ExportFolder::commit() {
  storage::create_directories_durably(folder_);
  for (const std::string& file : exported_files()) {
    std::error_code code;
    if (std::filesystem::exists(staging_ / file, code))
      std::filesystem::rename(staging_ / file, folder_ / file, code);
    else
      std::filesystem::remove(folder_ / file, code);
    COMERA_CHECK(!code, "{}: could not be replaced: {}", (folder_ / file).string(), code.message());
  }
}

}  // namespace comera::exchange
