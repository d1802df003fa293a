#pragma once

#include <filesystem>

namespace comera::exchange {

// Whether a folder holds a model that comera has exported: its README.md says so.
bool holds_export(const std::filesystem::path& folder);

// Where an export is written: beside the folder that gets it, so that what was there before stays until the
// new one is whole, and nothing is left of one that fails.
class ExportFolder {
 public:
  // Makes FOLDER.partial. What an export that was killed has left there is removed; Error if it is anything
  // else.
  explicit ExportFolder(const std::filesystem::path& folder);
  ~ExportFolder();
  ExportFolder(const ExportFolder&) = delete;
  ExportFolder& operator=(const ExportFolder&) = delete;

  const std::filesystem::path& staging() const { return staging_; }
  // Gives the folder the files, in place of those of an export before; others that lie there stay.
  void commit();

 private:
  std::filesystem::path folder_, staging_;
};

}  // namespace comera::exchange
