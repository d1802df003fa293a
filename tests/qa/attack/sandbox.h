#pragma once

#include <cstdint>
#include <string>

#include "tests/qa/attack/child.h"

// From root, the attack lives in mounts of its own, in which only its folder can be written: whatever a
// command line names, the machine stays as it is, and what is mounted there is gone when the last process
// ends, however that ends.
namespace comera::attack {

// Before any thread begins. Afterwards private_mounts() says whether it was possible; an ordinary user, or
// root in a container that forbids it, goes on without.
void enter_private_mounts(const fs::path& folder);
bool private_mounts();
// Removes that folder, at the end.
void remove_own_folder(const fs::path& folder);

// A small disk of its own. Only with private_mounts().
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
