#pragma once

#include <cstdint>
#include <string>

#include "tests/attack/child.h"

// As root, the attack runs in private mounts, where only its folder is writable: whatever a command line
// names, the machine is unchanged, and the mounts disappear with the last process, however it ends.
namespace comera::attack {

// Called before any thread starts. Afterwards private_mounts() tells whether it was possible; an ordinary
// user, or root in a container that forbids it, continues without.
void enter_private_mounts(const fs::path& folder);
bool private_mounts();
// Removes that folder, at the end.
void remove_own_folder(const fs::path& folder);

// A small private disk. Only with private_mounts().
class SmallDisk {
 public:
  SmallDisk(fs::path place, std::int64_t bytes);
  ~SmallDisk();
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  const fs::path& place() const { return place_; }
  void resize(std::int64_t bytes) const;
  void read_only(bool on) const;

 private:
  fs::path place_;
  mutable std::int64_t bytes_;
};

}  // namespace comera::attack
