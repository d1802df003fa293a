#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>

#include "kernels/core/console.h"
#include "storage/durable_file.h"
#include "storage/folder.h"
#include "storage/hdf5_handles.h"

namespace comera::storage::hdf5 {

namespace {

// HDF5 does not release a file whose last writes fail, and keeps its descriptor and its space. With the
// descriptor redirected to memory, the writes succeed, the file is released, and its content is dropped.
void abandon(hid_t id) {
  void* descriptor = nullptr;
  const int memory = memfd_create("abandoned", MFD_CLOEXEC);
  if (H5Fget_vfd_handle(id, H5P_DEFAULT, &descriptor) >= 0 && memory >= 0)
    dup2(memory, *static_cast<int*>(descriptor));
  H5Fclose(id);
  H5Eclear2(H5E_DEFAULT);
  if (memory >= 0) close(memory);
}

void close_file(State& state) {
  const hid_t id = std::exchange(state.id, -1);
  if (!state.lost.empty() || H5Fflush(id, H5F_SCOPE_GLOBAL) < 0) {
    const std::string reason = state.lost.empty() ? last_reason() : state.lost;
    abandon(id);
    throw Error(fmt::format("{}: could not write: {}", state.path.string(), reason));
  }
  if (H5Fclose(id) < 0) fail(state.path, "close");
}

// HDF5 opens files by name, and would follow a link or overwrite an existing file. Once this function has
// created the file, no other process uses the name. A disk that is full from the start is noticed here,
// because HDF5 does not free everything if it cannot even start a file.
void make_file(const std::filesystem::path& path) {
  const FileDescriptor file = FileDescriptor::create(path);
  try {
    file.write(0, std::string(std::size_t{1} << 14, '\0'));
  } catch (const Error&) {
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
    throw;
  }
}

Handle access_properties() {
  Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  H5Pset_fclose_degree(access, H5F_CLOSE_STRONG);
  return access;
}

}  // namespace

File File::create(const std::filesystem::path& path, const CreateOptions& options) {
  const Lock lock;
  const Handle access = access_properties();
  const Handle creation(H5Pcreate(H5P_FILE_CREATE), H5Pclose);
  if (creation < 0 || H5Pset_userblock(creation, static_cast<hsize_t>(options.user_block)) < 0)
    fail(path, "create the file");
  make_file(path);
  File file;
  file.state_ = std::make_shared<State>();
  file.state_->path = path;
  file.state_->id = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation, access);
  if (file.state_->id < 0) {
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
    fail(path, "create the file");
  }
  return file;
}

File File::open(const std::filesystem::path& path) { return open_existing(path, false); }

File File::modify(const std::filesystem::path& path) { return open_existing(path, true); }

File File::open_existing(const std::filesystem::path& path, bool writable) {
  const Lock lock;
  {
    refuse_missing(path, "file");
    std::error_code code;
    const auto status = std::filesystem::status(path, code);
    COMERA_CHECK(std::filesystem::exists(status), "{}: {}", path.string(), code.message());
    COMERA_CHECK(std::filesystem::is_regular_file(status), "{}: is not a regular file", path.string());
    COMERA_CHECK(FileDescriptor::open_to_read(path).size() > 0, "{}: the file is empty; write it again",
                 path.string());
  }
  const htri_t is_hdf5 = H5Fis_hdf5(path.c_str());
  H5Eclear2(H5E_DEFAULT);
  COMERA_CHECK(is_hdf5 > 0, "{}: is not an HDF5 file", path.string());
  const Handle access = access_properties();
  File file;
  file.state_ = std::make_shared<State>();
  file.state_->path = path;
  file.state_->id = H5Fopen(path.c_str(), writable ? H5F_ACC_RDWR : H5F_ACC_RDONLY, access);
  if (file.state_->id < 0) {
    const std::string reason = last_reason();
    throw Error(
        fmt::format("{}: the file is truncated or damaged: {}{}", path.string(), reason, hint_for(reason)));
  }
  return file;
}

File::~File() {
  if (!state_ || state_->id < 0) return;
  const Lock lock;
  try {
    close_file(*state_);
  } catch (const std::exception& error) {
    log_info("{}\n", error.what());
  }
}

bool File::is_open() const { return state_ && state_->id >= 0; }

std::string File::name() const { return state_ ? state_->path.string() : ""; }

void File::flush() {
  const Lock lock;
  const State& file = opened(state_);
  if (H5Fflush(file.id, H5F_SCOPE_GLOBAL) < 0) fail(file.path, "write");
}

void File::close() {
  const Lock lock;
  opened(state_);
  close_file(*state_);
}

bool File::exists(std::string_view path) const {
  const Lock lock;
  return link_exists(opened(state_), std::string(path));
}

bool File::is_dataset(std::string_view path) const {
  const Lock lock;
  const State& file = opened(state_);
  if (!link_exists(file, std::string(path))) return false;
  return H5Iget_type(open_object(file, path)) == H5I_DATASET;
}

void File::create_group(std::string_view path) {
  const Lock lock;
  const State& file = opened(state_);
  const std::string name(path);
  if (link_exists(file, name)) {
    COMERA_CHECK(H5Iget_type(open_object(file, path)) == H5I_GROUP, "{}: '{}' is not a group",
                 file.path.string(), path);
    return;
  }
  const Handle group(H5Gcreate2(file.id, name.c_str(), links_with_groups(), H5P_DEFAULT, H5P_DEFAULT),
                     H5Gclose);
  if (group < 0) fail(file.path, fmt::format("create group '{}'", path));
}

std::vector<std::string> File::children(std::string_view group) const {
  const Lock lock;
  const State& file = opened(state_);
  const Handle object = open_object(file, group);
  COMERA_CHECK(H5Iget_type(object) == H5I_GROUP, "{}: '{}' is not a group", file.path.string(), group);
  std::vector<std::string> names;
  const auto add = [](hid_t, const char* name, const H5L_info_t*, void* data) -> herr_t {
    static_cast<std::vector<std::string>*>(data)->emplace_back(name);
    return 0;
  };
  if (H5Literate(object, H5_INDEX_NAME, H5_ITER_INC, nullptr, add, &names) < 0)
    fail(file.path, fmt::format("list '{}'", group));
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace comera::storage::hdf5
