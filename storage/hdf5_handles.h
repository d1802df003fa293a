#pragma once

#include <hdf5.h>

#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "storage/hdf5.h"

// Shared by the files storage/hdf5_*.cpp: the lock, the reason of a failed call, identifiers that close
// automatically, and objects opened with the checks that a damaged or hostile file needs. No other file
// includes this.
namespace comera::storage::hdf5 {

struct State {
  hid_t id = -1;
  std::filesystem::path path;
  std::string lost;  // why values of a closed dataset did not reach the file
};

// One lock for the whole library, which may be built without thread safety. A thread-safe build has an error
// stack per thread, to be silenced in each.
class Lock {
 public:
  Lock() : guard_(mutex()) {
    thread_local const bool silenced = H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr) >= 0;
    static_cast<void>(silenced);
  }

 private:
  static std::recursive_mutex& mutex() {
    static std::recursive_mutex mutex;
    // At exit HDF5 would retry writing files whose disk was full, and hang or crash.
    static const bool prepared = H5dont_atexit() >= 0 && H5open() >= 0;
    static_cast<void>(prepared);
    return mutex;
  }
  std::lock_guard<std::recursive_mutex> guard_;
};

// The system's reason for the last failed call, or else HDF5's message.
std::string last_reason();
[[noreturn]] void fail(const std::filesystem::path& file, const std::string& what);
// The remedy if the cause is a format version that this HDF5 does not know; otherwise empty.
std::string hint_for(const std::string& reason);

// Owns an identifier of any kind.
class Handle {
 public:
  Handle(hid_t id, herr_t (*close)(hid_t)) : id_(id), close_(close) {}
  ~Handle() {
    if (id_ >= 0) close_(id_);
  }
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  Handle& operator=(Handle&&) = delete;
  operator hid_t() const { return id_; }
  hid_t release() { return std::exchange(id_, -1); }

 private:
  hid_t id_;
  herr_t (*close_)(hid_t);
};

hid_t native(DType dtype);

// Error if the file is closed.
const State& opened(const std::shared_ptr<State>& state);

// Whether the object exists; an external link on the path is an Error.
bool link_exists(const State& file, const std::string& path);
Handle open_object(const State& file, std::string_view path);
Handle open_dataset(const State& file, std::string_view path);
DatasetInfo describe(const State& file, hid_t dataset, std::string_view path);

std::vector<hsize_t> to_dims(const std::vector<std::int64_t>& shape);
// Creation properties: create parent groups, and record no times.
Handle links_with_groups();
Handle dataset_properties();

}  // namespace comera::storage::hdf5
