#include <algorithm>

#include "storage/hdf5_handles.h"

namespace comera::storage::hdf5 {

namespace {

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

}  // namespace

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
  // Fixed-length strings from other writers are padded.
  value.resize(std::min(value.find('\0'), value.size()));
  return value;
}

}  // namespace comera::storage::hdf5
