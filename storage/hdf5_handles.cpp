#include "storage/hdf5_handles.h"

#include <algorithm>
#include <limits>

namespace comera::storage::hdf5 {

namespace {

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

}  // namespace

// The system's reason if the error stack has one, or else the most specific entry.
std::string last_reason() {
  Reason reason;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, collect, &reason);
  H5Eclear2(H5E_DEFAULT);
  if (!reason.system.empty()) return reason.system;
  return reason.innermost.empty() ? "unknown reason" : reason.innermost;
}

void fail(const std::filesystem::path& file, const std::string& what) {
  const std::string reason = last_reason();
  throw Error(fmt::format("{}: could not {}: {}", file.string(), what, reason));
}

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

namespace {

// Links to elsewhere (other files, other names) are not followed: what a file holds is what it says itself.
void check_link(const State& file, const std::string& path) {
  H5L_info_t link;
  if (H5Lget_info(file.id, path.c_str(), &link, H5P_DEFAULT) < 0)
    fail(file.path, fmt::format("look for '{}'", path));
  COMERA_CHECK(link.type == H5L_TYPE_HARD,
               "{}: '{}' is a link to {}, which is not followed; write the file with its contents in it",
               file.path.string(), path, link.type == H5L_TYPE_EXTERNAL ? "another file" : "another name");
}

}  // namespace

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

namespace {

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

}  // namespace

Handle open_dataset(const State& file, std::string_view path) {
  Handle object = open_object(file, path);
  COMERA_CHECK(H5Iget_type(object) == H5I_DATASET, "{}: '{}' is not a dataset", file.path.string(), path);
  check_layout(file, object, path);
  return object;
}

DatasetInfo describe(const State& file, hid_t dataset, std::string_view path) {
  DatasetInfo info;
  const Handle space(H5Dget_space(dataset), H5Sclose);
  const Handle type(H5Dget_type(dataset), H5Tclose);
  if (space < 0 || type < 0) fail(file.path, fmt::format("read the shape of '{}'", path));
  const int count = H5Sget_simple_extent_ndims(space);
  std::vector<hsize_t> dims(static_cast<std::size_t>(std::max(count, 0)));
  if (count < 0 || (count > 0 && H5Sget_simple_extent_dims(space, dims.data(), nullptr) < 0))
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

// Without times, equal contents make equal files.
Handle dataset_properties() {
  Handle creation(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  H5Pset_obj_track_times(creation, false);
  return creation;
}

}  // namespace comera::storage::hdf5
