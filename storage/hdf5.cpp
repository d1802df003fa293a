#include "storage/hdf5.h"

#include <hdf5.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <mutex>
#include <numeric>
#include <system_error>
#include <utility>

#include "kernels/core/console.h"
#include "storage/durable_file.h"

namespace comera::storage::hdf5 {

struct State {
  hid_t id = -1;
  std::filesystem::path path;
  std::string lost;  // why numbers of a dataset that was closed did not reach the file
};

namespace {

// One lock for the whole library, which need not be built to be thread-safe. Where it is, each thread has its
// own error stack, to be silenced in each.
class Lock {
 public:
  Lock() : guard_(mutex()) {
    thread_local const bool silenced = H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr) >= 0;
    static_cast<void>(silenced);
  }

 private:
  static std::recursive_mutex& mutex() {
    static std::recursive_mutex mutex;
    // At exit HDF5 would try again to write files whose disk was full, and hang or crash.
    static const bool prepared = H5dont_atexit() >= 0 && H5open() >= 0;
    static_cast<void>(prepared);
    return mutex;
  }
  std::lock_guard<std::recursive_mutex> guard_;
};

struct Reason {
  std::string innermost;
  std::string system;
};

herr_t collect(unsigned, const H5E_error2_t* error, void* data) {
  auto& reason = *static_cast<Reason*>(data);
  const std::string text = error->desc ? error->desc : "";
  if (reason.innermost.empty()) reason.innermost = text;
  const std::string key = "error message = '";
  if (const auto at = text.find(key); reason.system.empty() && at != std::string::npos) {
    const auto begin = at + key.size();
    reason.system = text.substr(begin, text.find('\'', begin) - begin);
  }
  return 0;
}

// The system's reason if the error stack has one, or else the most specific entry.
std::string last_reason() {
  Reason reason;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, collect, &reason);
  H5Eclear2(H5E_DEFAULT);
  if (!reason.system.empty()) return reason.system;
  return reason.innermost.empty() ? "unknown reason" : reason.innermost;
}

[[noreturn]] void fail(const std::filesystem::path& file, const std::string& what) {
  const std::string reason = last_reason();
  throw Error(fmt::format("{}: could not {}: {}", file.string(), what, reason));
}

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

hid_t native(DType dtype) {
  switch (dtype) {
    case DType::float32:
      return H5T_NATIVE_FLOAT;
    case DType::float64:
      return H5T_NATIVE_DOUBLE;
    case DType::int32:
      return H5T_NATIVE_INT32;
    case DType::int64:
      return H5T_NATIVE_INT64;
    case DType::uint8:
      return H5T_NATIVE_UINT8;
    case DType::bfloat16:
    case DType::float8_e4m3:
    case DType::float8_e5m2:
      break;
  }
  throw_error(fmt::format("{} is not stored in files", name_of(dtype)));
}

const State& opened(const std::shared_ptr<State>& state) {
  COMERA_CHECK(state && state->id >= 0, "{}: the file is closed",
               state ? state->path.string() : std::string("(no HDF5 file)"));
  return *state;
}

// Links to elsewhere (other files, other names) are not followed: what a file holds is what it says itself.
void check_link(const State& file, const std::string& path) {
  H5L_info_t link;
  if (H5Lget_info(file.id, path.c_str(), &link, H5P_DEFAULT) < 0)
    fail(file.path, fmt::format("look for '{}'", path));
  COMERA_CHECK(link.type == H5L_TYPE_HARD,
               "{}: '{}' is a link to {}, which is not followed; write the file with its contents in it",
               file.path.string(), path, link.type == H5L_TYPE_EXTERNAL ? "another file" : "another name");
}

// Whether every link on the way exists: H5Lexists fails rather than says no when a parent is missing.
bool link_exists(const State& file, const std::string& path) {
  std::size_t at = 0;
  while (at < path.size()) {
    const std::size_t begin = path.find_first_not_of('/', at);
    if (begin == std::string::npos) break;
    at = std::min(path.find('/', begin), path.size());
    const std::string part = path.substr(0, at);
    const htri_t found = H5Lexists(file.id, part.c_str(), H5P_DEFAULT);
    if (found <= 0) {
      H5Eclear2(H5E_DEFAULT);
      return false;
    }
    check_link(file, part);
  }
  return true;
}

Handle open_object(const State& file, std::string_view path) {
  const std::string name(path);
  COMERA_CHECK(link_exists(file, name), "{}: has no '{}'", file.path.string(), name);
  Handle object(H5Oopen(file.id, name.c_str(), H5P_DEFAULT), H5Oclose);
  if (object < 0) fail(file.path, fmt::format("open '{}'", name));
  // A group that is also within itself would have no end.
  H5O_info_t info;
  if (H5Oget_info2(object, &info, H5O_INFO_BASIC) < 0) fail(file.path, fmt::format("open '{}'", name));
  COMERA_CHECK(info.rc <= 1,
               "{}: '{}' has {} names, but nothing in such a file has more than one; the file is damaged",
               file.path.string(), name, info.rc);
  return object;
}

// Numbers that lie in other files are not read either.
void check_layout(const State& file, hid_t dataset, std::string_view path) {
  const Handle properties(H5Dget_create_plist(dataset), H5Pclose);
  if (properties < 0) fail(file.path, fmt::format("read the layout of '{}'", path));
  COMERA_CHECK(
      H5Pget_layout(properties) != H5D_VIRTUAL && H5Pget_external_count(properties) <= 0,
      "{}: the numbers of '{}' are said to lie in other files, which are not read; write the file with its "
      "contents in it",
      file.path.string(), path);
}

Handle open_dataset(const State& file, std::string_view path) {
  Handle object = open_object(file, path);
  COMERA_CHECK(H5Iget_type(object) == H5I_DATASET, "{}: '{}' is not a dataset", file.path.string(), path);
  check_layout(file, object, path);
  return object;
}

// The bytes of all elements, of 8 bytes at most, must be countable.
void check_shape(const State& file, const std::vector<hsize_t>& dims, std::string_view path) {
  constexpr hsize_t most = std::numeric_limits<std::int64_t>::max() / 8;
  hsize_t elements = 1;
  for (const hsize_t dim : dims) {
    COMERA_CHECK(dim <= most && (dim == 0 || elements <= most / dim),
                 "{}: '{}' claims more elements than any computer can hold; the file is damaged",
                 file.path.string(), path);
    elements *= std::max<hsize_t>(dim, 1);
  }
}

DatasetInfo describe(const State& file, hid_t dataset, std::string_view path) {
  DatasetInfo info;
  const Handle space(H5Dget_space(dataset), H5Sclose);
  const Handle type(H5Dget_type(dataset), H5Tclose);
  if (space < 0 || type < 0) fail(file.path, fmt::format("read the shape of '{}'", path));
  const int rank = H5Sget_simple_extent_ndims(space);
  std::vector<hsize_t> dims(static_cast<std::size_t>(std::max(rank, 0)));
  if (rank < 0 || (rank > 0 && H5Sget_simple_extent_dims(space, dims.data(), nullptr) < 0))
    fail(file.path, fmt::format("read the shape of '{}'", path));
  info.shape.assign(dims.begin(), dims.end());
  check_shape(file, dims, path);
  info.stored_bytes = static_cast<std::int64_t>(H5Dget_storage_size(dataset));
  const H5T_class_t kind = H5Tget_class(type);
  const std::size_t size = H5Tget_size(type);
  if (kind == H5T_FLOAT) {
    info.dtype = size <= 4 ? DType::float32 : DType::float64;
  } else if (kind == H5T_INTEGER) {
    const bool is_signed = H5Tget_sign(type) == H5T_SGN_2;
    if (size == 1 && !is_signed)
      info.dtype = DType::uint8;
    else
      info.dtype = size < 4 || (size == 4 && is_signed) ? DType::int32 : DType::int64;
  } else {
    throw Error(
        fmt::format("{}: '{}' does not hold integers or floating-point numbers", file.path.string(), path));
  }
  return info;
}

std::vector<hsize_t> to_dims(const std::vector<std::int64_t>& shape) {
  return std::vector<hsize_t>(shape.begin(), shape.end());
}

Handle links_with_groups() {
  Handle links(H5Pcreate(H5P_LINK_CREATE), H5Pclose);
  H5Pset_create_intermediate_group(links, 1);
  return links;
}

void write_attribute(const State& file, std::string_view path, std::string_view name, hid_t type, hid_t space,
                     const void* value) {
  const Handle object = open_object(file, path);
  const std::string key(name);
  const std::string what = fmt::format("write attribute '{}' of '{}'", name, path);
  const htri_t found = H5Aexists(object, key.c_str());
  if (found < 0 || (found > 0 && H5Adelete(object, key.c_str()) < 0)) fail(file.path, what);
  const Handle attribute(H5Acreate2(object, key.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT), H5Aclose);
  if (attribute < 0 || H5Awrite(attribute, type, value) < 0) fail(file.path, what);
}

Handle open_attribute(const State& file, std::string_view path, std::string_view name) {
  const Handle object = open_object(file, path);
  const std::string key(name);
  const htri_t found = H5Aexists(object, key.c_str());
  if (found < 0) fail(file.path, fmt::format("look for attribute '{}' of '{}'", name, path));
  COMERA_CHECK(found > 0, "{}: '{}' has no attribute '{}'", file.path.string(), path, name);
  Handle attribute(H5Aopen(object, key.c_str(), H5P_DEFAULT), H5Aclose);
  if (attribute < 0) fail(file.path, fmt::format("open attribute '{}' of '{}'", name, path));
  return attribute;
}

template <class T>
std::vector<T> read_numbers(const State& file, std::string_view path, std::string_view name) {
  const Handle attribute = open_attribute(file, path, name);
  const Handle type(H5Aget_type(attribute), H5Tclose);
  const Handle space(H5Aget_space(attribute), H5Sclose);
  const H5T_class_t kind = H5Tget_class(type);
  constexpr bool whole = std::is_integral_v<T>;
  COMERA_CHECK(kind == H5T_INTEGER || (!whole && kind == H5T_FLOAT), "{}: attribute '{}' of '{}' is not {}",
               file.path.string(), name, path, whole ? "an integer" : "a number");
  const hssize_t count = H5Sget_simple_extent_npoints(space);
  std::vector<T> values(static_cast<std::size_t>(std::max<hssize_t>(count, 0)));
  if (count < 0 || (count > 0 && H5Aread(attribute, native(dtype_of<T>), values.data()) < 0))
    fail(file.path, fmt::format("read attribute '{}' of '{}'", name, path));
  return values;
}

template <class T>
T read_number(const State& file, std::string_view path, std::string_view name) {
  const std::vector<T> values = read_numbers<T>(file, path, name);
  COMERA_CHECK(values.size() == 1, "{}: attribute '{}' of '{}' is a list of {}, not one number",
               file.path.string(), name, path, values.size());
  return values[0];
}

// HDF5 does not let go of a file whose last writes fail, and keeps its descriptor and its space. With the
// descriptor pointing at memory the writes succeed, the file is released, and what it held is dropped.
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

// Without times, equal contents make equal files.
Handle dataset_properties() {
  Handle creation(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  H5Pset_obj_track_times(creation, false);
  return creation;
}

// HDF5 opens files by name, and would follow a link or overwrite what is there. Nobody else uses the name
// once this has made the file. A disk that is full from the start is noticed here, because HDF5 does not free
// everything when it cannot even begin a file.
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

std::int64_t DatasetInfo::elements() const {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

Dataset::~Dataset() {
  if (id_ < 0) return;
  const Lock lock;
  // Closing may write, and what it fails to write is not tried again: File::close() reports it.
  if (file_->id >= 0 && H5Dclose(id_) < 0) file_->lost = last_reason();
}

void Dataset::swap(Dataset& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(id_, other.id_);
  std::swap(name_, other.name_);
  std::swap(info_, other.info_);
}

std::int64_t Dataset::row_elements() const {
  return info_.shape.empty() ? 1
                             : std::accumulate(info_.shape.begin() + 1, info_.shape.end(), std::int64_t{1},
                                               std::multiplies<>());
}

void Dataset::append(DType dtype, const void* data, std::int64_t elements) {
  const Lock lock;
  const State& file = opened(file_);
  const std::int64_t per_row = row_elements();
  COMERA_CHECK(per_row > 0 && elements % per_row == 0, "{}: '{}' takes rows of {} elements, {} came",
               file.path.string(), name_, per_row, elements);
  if (elements == 0) return;
  const std::string what = fmt::format("write '{}'", name_);
  std::vector<hsize_t> start(info_.shape.size(), 0);
  std::vector<hsize_t> count = to_dims(info_.shape);
  std::vector<hsize_t> grown = count;
  start[0] = count[0];
  count[0] = static_cast<hsize_t>(elements / per_row);
  grown[0] += count[0];
  if (H5Dset_extent(id_, grown.data()) < 0) fail(file.path, what);
  info_.shape[0] = static_cast<std::int64_t>(grown[0]);
  const Handle target(H5Dget_space(id_), H5Sclose);
  const Handle source(H5Screate_simple(static_cast<int>(count.size()), count.data(), nullptr), H5Sclose);
  if (target < 0 || source < 0 ||
      H5Sselect_hyperslab(target, H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr) < 0 ||
      H5Dwrite(id_, native(dtype), source, target, H5P_DEFAULT, data) < 0)
    fail(file.path, what);
}

void Dataset::read_rows(std::int64_t begin, std::int64_t wanted, DType dtype, void* data) const {
  const Lock lock;
  const State& file = opened(file_);
  COMERA_CHECK(begin >= 0 && wanted >= 0 && begin + wanted <= rows() && !info_.shape.empty(),
               "{}: '{}' has {} rows, rows {} to {} were asked for", file.path.string(), name_, rows(), begin,
               begin + wanted);
  if (wanted == 0) return;
  std::vector<hsize_t> start(info_.shape.size(), 0);
  std::vector<hsize_t> count = to_dims(info_.shape);
  start[0] = static_cast<hsize_t>(begin);
  count[0] = static_cast<hsize_t>(wanted);
  const Handle source(H5Dget_space(id_), H5Sclose);
  const Handle target(H5Screate_simple(static_cast<int>(count.size()), count.data(), nullptr), H5Sclose);
  if (target < 0 || source < 0 ||
      H5Sselect_hyperslab(source, H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr) < 0 ||
      H5Dread(id_, native(dtype), target, source, H5P_DEFAULT, data) < 0)
    fail(file.path, fmt::format("read rows {} to {} of '{}'", begin, begin + wanted, name_));
}

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
    std::error_code code;
    const auto status = std::filesystem::status(path, code);
    COMERA_CHECK(std::filesystem::exists(status), "{}: no such file", path.string());
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
  if (file.state_->id < 0)
    throw Error(fmt::format("{}: the file is truncated or damaged: {}", path.string(), last_reason()));
  return file;
}

File::~File() {
  if (!state_ || state_->id < 0) return;
  const Lock lock;
  try {
    close_file(*state_);
  } catch (const std::exception& error) {
    say("{}\n", error.what());
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

DatasetInfo File::info(std::string_view path) const {
  const Lock lock;
  const State& file = opened(state_);
  return describe(file, open_dataset(file, path), path);
}

void File::write(std::string_view path, DType dtype, const std::vector<std::int64_t>& shape,
                 const void* data) {
  const Lock lock;
  const State& file = opened(state_);
  const std::string name(path);
  const std::string what = fmt::format("write '{}'", name);
  const std::vector<hsize_t> dims = to_dims(shape);
  const Handle space(dims.empty() ? H5Screate(H5S_SCALAR)
                                  : H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr),
                     H5Sclose);
  if (space < 0) fail(file.path, what);
  Handle dataset(H5Dcreate2(file.id, name.c_str(), native(dtype), space, links_with_groups(),
                            dataset_properties(), H5P_DEFAULT),
                 H5Dclose);
  if (dataset < 0) fail(file.path, what);
  const bool empty = std::find(dims.begin(), dims.end(), 0) != dims.end();
  if (!empty && H5Dwrite(dataset, native(dtype), H5S_ALL, H5S_ALL, H5P_DEFAULT, data) < 0)
    fail(file.path, what);
  // A small dataset is written only here, and what fails here is not tried again.
  if (H5Dclose(dataset.release()) < 0) fail(file.path, what);
}

void File::read(std::string_view path, DType dtype, void* data, std::int64_t elements) const {
  const Lock lock;
  const State& file = opened(state_);
  const Handle dataset = open_dataset(file, path);
  const DatasetInfo info = describe(file, dataset, path);
  COMERA_CHECK(info.elements() == elements, "{}: '{}' has {} elements, expected {}", file.path.string(), path,
               info.elements(), elements);
  if (elements > 0 && H5Dread(dataset, native(dtype), H5S_ALL, H5S_ALL, H5P_DEFAULT, data) < 0)
    fail(file.path, fmt::format("read '{}'", path));
}

ByteRange File::data_range(std::string_view path) const {
  const Lock lock;
  const State& file = opened(state_);
  const Handle dataset = open_dataset(file, path);
  const hsize_t bytes = H5Dget_storage_size(dataset);
  if (bytes == 0) return {};
  const haddr_t offset = H5Dget_offset(dataset);
  if (offset == HADDR_UNDEF) fail(file.path, fmt::format("find the numbers of '{}'", path));
  return {static_cast<std::int64_t>(offset), static_cast<std::int64_t>(bytes)};
}

Dataset File::create_dataset(std::string_view path, DType dtype, const std::vector<std::int64_t>& row_shape,
                             const StreamOptions& options) {
  const Lock lock;
  const State& file = opened(state_);
  const std::string what = fmt::format("create '{}'", path);
  Dataset dataset;
  dataset.file_ = state_;
  dataset.name_ = std::string(path);
  dataset.info_.dtype = dtype;
  dataset.info_.shape = {0};
  dataset.info_.shape.insert(dataset.info_.shape.end(), row_shape.begin(), row_shape.end());
  const std::vector<hsize_t> dims = to_dims(dataset.info_.shape);
  std::vector<hsize_t> limits = dims;
  std::vector<hsize_t> chunk = dims;
  limits[0] = H5S_UNLIMITED;
  chunk[0] = static_cast<hsize_t>(std::max<std::int64_t>(options.chunk_rows, 1));
  const Handle space(H5Screate_simple(static_cast<int>(dims.size()), dims.data(), limits.data()), H5Sclose);
  const Handle creation = dataset_properties();
  if (space < 0 || creation < 0 || H5Pset_chunk(creation, static_cast<int>(chunk.size()), chunk.data()) < 0 ||
      (options.deflate > 0 && H5Pset_deflate(creation, static_cast<unsigned>(options.deflate)) < 0) ||
      (options.checksum && H5Pset_fletcher32(creation) < 0))
    fail(file.path, what);
  dataset.id_ = H5Dcreate2(file.id, dataset.name_.c_str(), native(dtype), space, links_with_groups(),
                           creation, H5P_DEFAULT);
  if (dataset.id_ < 0) fail(file.path, what);
  return dataset;
}

Dataset File::dataset(std::string_view path) const {
  const Lock lock;
  const State& file = opened(state_);
  Handle object = open_dataset(file, path);
  Dataset dataset;
  dataset.file_ = state_;
  dataset.name_ = std::string(path);
  dataset.info_ = describe(file, object, path);
  dataset.id_ = object.release();
  return dataset;
}

bool File::has_attribute(std::string_view path, std::string_view name) const {
  const Lock lock;
  const State& file = opened(state_);
  if (!link_exists(file, std::string(path))) return false;
  const htri_t found = H5Aexists(open_object(file, path), std::string(name).c_str());
  if (found < 0) fail(file.path, fmt::format("look for attribute '{}' of '{}'", name, path));
  return found > 0;
}

std::vector<AttributeInfo> File::attributes(std::string_view path) const {
  const Lock lock;
  const State& file = opened(state_);
  const Handle object = open_object(file, path);
  std::vector<AttributeInfo> found;
  const auto add = [](hid_t owner, const char* name, const H5A_info_t*, void* data) -> herr_t {
    const Handle attribute(H5Aopen(owner, name, H5P_DEFAULT), H5Aclose);
    if (attribute < 0) return -1;
    const Handle type(H5Aget_type(attribute), H5Tclose);
    const Handle space(H5Aget_space(attribute), H5Sclose);
    AttributeInfo info{name, AttributeKind::integer};
    if (H5Tget_class(type) == H5T_STRING)
      info.kind = AttributeKind::text;
    else if (H5Tget_class(type) == H5T_FLOAT)
      info.kind = AttributeKind::number;
    else if (H5Sget_simple_extent_type(space) != H5S_SCALAR)
      info.kind = AttributeKind::integer_list;
    static_cast<std::vector<AttributeInfo>*>(data)->push_back(std::move(info));
    return 0;
  };
  if (H5Aiterate2(object, H5_INDEX_NAME, H5_ITER_INC, nullptr, add, &found) < 0)
    fail(file.path, fmt::format("list the attributes of '{}'", path));
  std::ranges::sort(found, {}, &AttributeInfo::name);
  return found;
}

void File::set_attribute(std::string_view path, std::string_view name, std::int64_t value) {
  const Lock lock;
  const Handle space(H5Screate(H5S_SCALAR), H5Sclose);
  write_attribute(opened(state_), path, name, H5T_NATIVE_INT64, space, &value);
}

void File::set_attribute(std::string_view path, std::string_view name, double value) {
  const Lock lock;
  const Handle space(H5Screate(H5S_SCALAR), H5Sclose);
  write_attribute(opened(state_), path, name, H5T_NATIVE_DOUBLE, space, &value);
}

void File::set_attribute(std::string_view path, std::string_view name, std::string_view value) {
  const Lock lock;
  // Variable length: h5py reads it as str, and the limit of 64 KiB on an attribute does not apply.
  const Handle type(H5Tcopy(H5T_C_S1), H5Tclose);
  H5Tset_size(type, H5T_VARIABLE);
  H5Tset_cset(type, H5T_CSET_UTF8);
  const Handle space(H5Screate(H5S_SCALAR), H5Sclose);
  const std::string text(value);
  COMERA_CHECK(text.find('\0') == std::string::npos, "attribute '{}' of '{}' contains a NUL character", name,
               path);
  const char* pointer = text.c_str();
  write_attribute(opened(state_), path, name, type, space, &pointer);
}

void File::set_attribute(std::string_view path, std::string_view name,
                         const std::vector<std::int64_t>& values) {
  const Lock lock;
  const hsize_t count = values.size();
  const Handle space(count == 0 ? H5Screate(H5S_NULL) : H5Screate_simple(1, &count, nullptr), H5Sclose);
  const std::int64_t unused = 0;
  write_attribute(opened(state_), path, name, H5T_NATIVE_INT64, space, count == 0 ? &unused : values.data());
}

std::int64_t File::int64_attribute(std::string_view path, std::string_view name) const {
  const Lock lock;
  return read_number<std::int64_t>(opened(state_), path, name);
}

double File::double_attribute(std::string_view path, std::string_view name) const {
  const Lock lock;
  return read_number<double>(opened(state_), path, name);
}

std::vector<std::int64_t> File::int64_list_attribute(std::string_view path, std::string_view name) const {
  const Lock lock;
  return read_numbers<std::int64_t>(opened(state_), path, name);
}

std::string File::string_attribute(std::string_view path, std::string_view name) const {
  const Lock lock;
  const State& file = opened(state_);
  const Handle attribute = open_attribute(file, path, name);
  const Handle type(H5Aget_type(attribute), H5Tclose);
  const Handle space(H5Aget_space(attribute), H5Sclose);
  const std::string what = fmt::format("read attribute '{}' of '{}'", name, path);
  COMERA_CHECK(H5Tget_class(type) == H5T_STRING && H5Sget_simple_extent_npoints(space) == 1,
               "{}: attribute '{}' of '{}' is not a string", file.path.string(), name, path);
  if (H5Tis_variable_str(type) > 0) {
    char* pointer = nullptr;
    if (H5Aread(attribute, type, &pointer) < 0) fail(file.path, what);
    std::string value = pointer ? pointer : "";
    H5free_memory(pointer);
    return value;
  }
  std::string value(H5Tget_size(type), '\0');
  if (H5Aread(attribute, type, value.data()) < 0) fail(file.path, what);
  // Fixed-length strings of other writers are padded.
  value.resize(std::min(value.find('\0'), value.size()));
  return value;
}

}  // namespace comera::storage::hdf5
