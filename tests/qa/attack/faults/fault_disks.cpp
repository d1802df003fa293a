// Disks that are full, or cannot be written.
#include <fmt/format.h>

#include "tests/qa/attack/samples/scene.h"
#include "tests/qa/attack/sandbox.h"

namespace comera::attack {

namespace {

constexpr std::int64_t enough = 64 << 20;

bool has_disks(Try& own) {
  if (!private_mounts()) own.skip("mounting small disks needs root");
  return private_mounts();
}

}  // namespace

void full_disk(Try& own) {
  if (!has_disks(own)) return;
  const SmallDisk disk(own.folder() / "disk", enough);
  Scene scene(own, disk.place());
  std::int64_t held = 4096;
  if (own.chance.one_in(2)) {
    scene.stand_half_way();
    for (const auto& entry : fs::recursive_directory_iterator(scene.run()))
      held += 4096 + (entry.is_regular_file() ? static_cast<std::int64_t>(entry.file_size()) : 0);
  }
  disk.resize(held + own.chance.between(4096, 1200000));
  scene.train(scene.training(), {.names = {"No space left on device"}});
  disk.resize(enough);
  scene.go_on();
}

void full_disk_of_checkpoints(Try& own) {
  if (!has_disks(own)) return;
  Scene scene(own, own.folder());
  scene.stand_half_way();
  fs::rename(scene.run() / "checkpoints", own.folder() / "before");
  const SmallDisk disk(scene.run() / "checkpoints", enough);
  fs::copy(own.folder() / "before", disk.place(), fs::copy_options::recursive);
  disk.resize(own.chance.between(800000, 1600000));
  scene.train(scene.training(), {.names = {"No space left on device"}});
  disk.resize(enough);
  scene.go_on();
}

void read_only_disk(Try& own) {
  if (!has_disks(own)) return;
  const SmallDisk disk(own.folder() / "disk", enough);
  Scene scene(own, disk.place());
  if (own.chance.one_in(2)) scene.stand_half_way();
  disk.read_only(true);
  scene.train(scene.training(), {.success = false, .names = {"Read-only file system"}});
  disk.read_only(false);
  scene.go_on();
}

// By a disk from root, whom permissions do not stop, else by permissions.
void read_only_checkpoints(Try& own) {
  Scene scene(own, own.folder());
  scene.stand_half_way();
  const fs::path checkpoints = scene.run() / "checkpoints";
  if (private_mounts()) {
    fs::rename(checkpoints, own.folder() / "before");
    const SmallDisk disk(checkpoints, enough);
    fs::copy(own.folder() / "before", disk.place(), fs::copy_options::recursive);
    disk.read_only(true);
    scene.train(scene.training(), {.success = false, .names = {"Read-only file system"}});
    disk.read_only(false);
    scene.go_on();
    return;
  }
  fs::permissions(checkpoints, fs::perms::owner_read | fs::perms::owner_exec);
  scene.train(scene.training(), {.names = {"Permission denied"}});
  fs::permissions(checkpoints, fs::perms::owner_all);
  scene.go_on();
}

}  // namespace comera::attack
