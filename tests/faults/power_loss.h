#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace comera::faults {

// The possible states of a strict file system's disk: contents of files as of their last sync, and names as
// of their directory's last sync. Of later changes, any prefix of the changes of names, and of a file's
// contents nothing, all, a part, or zeros.
class Disk {
 public:
  // The current content is on disk.
  explicit Disk(std::filesystem::path root);

  // To be called around every change of names, so that each state of a directory is seen.
  void look(const std::filesystem::path& directory);
  void sync_file(const std::filesystem::path& file);
  void sync_directory(const std::filesystem::path& directory);
  // The file of that name is about to lose it: its number may be used again.
  void forget(const std::filesystem::path& file);

  // Writes the remains after a power loss into `image`.
  void leave(const std::filesystem::path& image, std::uint64_t seed) const;

 private:
  struct Identity {
    std::uint64_t number = 0;
    std::int64_t generation = 0;
    auto operator<=>(const Identity&) const = default;
  };
  using Names = std::map<std::string, Identity>;

  Identity identify(const std::filesystem::path& file) const;
  Names list(const std::filesystem::path& directory) const;
  void leave_directory(const std::filesystem::path& from, const std::filesystem::path& to,
                       std::uint64_t& seed) const;
  std::string left_of(const Identity& file, const std::filesystem::path& path, std::uint64_t& seed) const;

  std::filesystem::path root_;
  std::map<std::uint64_t, std::int64_t> generations_;
  std::map<Identity, std::string> synced_;
  std::map<Identity, std::string> last_seen_;  // of files whose name was removed
  // The states since the directory was synced; the first one is on disk.
  std::map<std::filesystem::path, std::vector<Names>> states_;
};

}  // namespace comera::faults
