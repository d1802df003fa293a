#include "data/shards/shard_files.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/core/check.h"
#include "storage/durable_file.h"
#include "storage/folder.h"

namespace comera::data {
namespace {

const std::string unfinished = ".partial";

// Files whose names have this prefix and suffix, with anything or only a number between them.
enum class Between : std::uint8_t { anything, number };

void remove_files(const std::filesystem::path& folder, const std::string& prefix, const std::string& suffix,
                  Between between) {
  std::error_code code;
  std::vector<std::filesystem::path> paths = storage::entries_of(folder, code);
  std::erase_if(paths, [&](const std::filesystem::path& path) {
    const std::string name = path.filename().string();
    if (!name.starts_with(prefix) || !name.ends_with(suffix)) return true;
    return between == Between::number &&
           name.find_first_not_of("0123456789", prefix.size()) != name.size() - suffix.size();
  });
  for (const auto& path : paths)
    if (!code) std::filesystem::remove(path, code);
  COMERA_CHECK(!code, "{}: could not remove the shards of an earlier run: {}", folder.string(),
               code.message());
  if (!paths.empty()) storage::sync_directory(folder);
}

}  // namespace

std::string shard_name(const std::string& split, std::int64_t index) {
  return fmt::format("{}-{:05}.h5", split, index);
}

void remove_shards(const std::filesystem::path& folder, const std::string& split) {
  remove_files(folder, split + "-", ".h5", Between::anything);
}

void remove_unfinished_shards(const std::filesystem::path& folder, const std::string& split) {
  remove_files(folder, split + "-", ".h5" + unfinished, Between::number);
}

ShardFolder::ShardFolder(const std::filesystem::path& folder, bool replace)
    : made_(folder), lock_(folder, "making shards") {
  if (replace) return;
  for (const std::filesystem::path& file : storage::entries_of(folder))
    COMERA_CHECK(file.extension() != ".h5",
                 "{}: holds shards, which another process has made meanwhile; give --overwrite to replace "
                 "them, or another folder",
                 folder.string());
}

ShardFiles::~ShardFiles() {
  std::error_code ignored;
  if (file_.is_open()) {
    try {
      file_.close();
    } catch (const std::exception&) {
      // The file is discarded; the failing call has thrown the reason.
    }
    std::filesystem::remove(temporary_path(), ignored);
  }
  for (const auto& path : completed_) std::filesystem::remove(path, ignored);
}

std::filesystem::path ShardFiles::temporary_path() const {
  return folder_ / (shard_name(split_, count()) + unfinished);
}

storage::hdf5::File& ShardFiles::open() {
  COMERA_CHECK(!sealed_, "the shards of split '{}' are sealed: nothing can be added", split_);
  file_ = storage::hdf5::File::create(temporary_path(), {.user_block = storage::seal_bytes});
  return file_;
}

void ShardFiles::close() {
  const auto path = temporary_path();
  try {
    file_.close();
    storage::sync_file(path);
  } catch (const Error&) {
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
    throw;
  }
  completed_.push_back(path);
}

void ShardFiles::seal() {
  for (std::int64_t i = 0; i < count(); ++i) {
    storage::hdf5::File file = storage::hdf5::File::modify(completed_[i]);
    file.set_attribute("/", "index", i);
    file.set_attribute("/", "shards", count());
    file.close();
    storage::seal(completed_[i], kind_);
    storage::sync_file(completed_[i]);
  }
  sealed_ = true;
}

void ShardFiles::publish() {
  COMERA_CHECK(sealed_, "the shards of split '{}' are not sealed yet", split_);
  for (std::int64_t i = 0; i < count(); ++i)
    // Each is on disk before the next, so that their order survives a crash of the machine.
    storage::rename_durably(completed_[i], folder_ / shard_name(split_, i));
}

}  // namespace comera::data
