#include "tests/qa/faults/power_loss.h"

#include <sys/stat.h>

#include <fstream>
#include <iterator>

#include "storage/hash.h"

namespace comera::faults {

namespace fs = std::filesystem;

namespace {

std::string read(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::uint64_t draw(std::uint64_t& seed, std::uint64_t below) {
  seed = storage::mix64(seed);
  return seed % below;
}

}  // namespace

Disk::Disk(fs::path root) : root_(std::move(root)) {
  states_[root_] = {list(root_)};
  for (const auto& entry : fs::recursive_directory_iterator(root_)) {
    if (entry.is_directory())
      states_[entry.path()] = {list(entry.path())};
    else
      sync_file(entry.path());
  }
}

Disk::Identity Disk::identify(const fs::path& file) const {
  struct stat status {};
  if (stat(file.c_str(), &status) != 0) return {};
  const auto found = generations_.find(status.st_ino);
  return {status.st_ino, found == generations_.end() ? 0 : found->second};
}

Disk::Names Disk::list(const fs::path& directory) const {
  Names names;
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(directory, code))
    names[entry.path().filename().string()] = identify(entry.path());
  return names;
}

void Disk::look(const fs::path& directory) {
  auto& states = states_[directory];
  if (states.empty()) states.emplace_back();  // a new directory: nothing of it is on the disk
  Names now = list(directory);
  if (now != states.back()) states.push_back(std::move(now));
}

void Disk::sync_file(const fs::path& file) { synced_[identify(file)] = read(file); }

void Disk::sync_directory(const fs::path& directory) { states_[directory] = {list(directory)}; }

void Disk::forget(const fs::path& file) {
  const Identity identity = identify(file);
  if (identity.number == 0) return;
  last_seen_[identity] = read(file);
  ++generations_[identity.number];
}

std::string Disk::left_of(const Identity& file, const fs::path& path, std::uint64_t& seed) const {
  const auto synced = synced_.find(file);
  const auto gone = last_seen_.find(file);
  std::string now;
  if (gone != last_seen_.end()) {
    now = gone->second;
  } else {
    // By whatever name it has now.
    for (const auto& entry : fs::directory_iterator(path.parent_path()))
      if (identify(entry.path()) == file) now = read(entry.path());
  }
  std::string before = synced == synced_.end() ? "" : synced->second;
  if (now == before) return now;
  switch (draw(seed, 4)) {
    case 0:
      return before;
    case 1:
      return now;
    case 2:
      now.resize(draw(seed, now.size() + 1));
      return now;
    default: {
      const std::size_t from = draw(seed, now.size() + 1) / 512 * 512;
      return now.replace(from, now.npos, now.size() - from, '\0');
    }
  }
}

void Disk::leave_directory(const fs::path& from, const fs::path& to, std::uint64_t& seed) const {
  fs::create_directories(to);
  const auto found = states_.find(from);
  if (found == states_.end()) return;
  const std::vector<Names>& states = found->second;
  // Often the strictest: nothing that was not synced.
  const std::size_t at = draw(seed, 2) == 0 ? 0 : draw(seed, states.size());
  for (const auto& [name, identity] : states[at]) {
    if (fs::is_directory(from / name))
      leave_directory(from / name, to / name, seed);
    else
      std::ofstream(to / name, std::ios::binary) << left_of(identity, from / name, seed);
  }
}

void Disk::leave(const fs::path& image, std::uint64_t seed) const { leave_directory(root_, image, seed); }

}  // namespace comera::faults
