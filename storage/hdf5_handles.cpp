#include "storage/hdf5_handles.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>

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
  throw Error(fmt::format("{}: could not {}: {}{}", file.string(), what, reason, hint_for(reason)));
}

std::string hint_for(const std::string& reason) {
  if (reason.find("version") == std::string::npos) return "";
  unsigned major = 0, minor = 0, release = 0;
  H5get_libversion(&major, &minor, &release);
  return fmt::format(
      "; the file is damaged, or in a newer format than HDF5 {}.{} reads: then write it again, with h5py "
      "without "
      "libver='latest' or with libver=('earliest', 'v114')",
      major, minor);
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

// External and soft links are not followed: a file's content must be in the file itself.
void check_link(const State& file, const std::string& path) {
  H5L_info_t link;
  if (H5Lget_info(file.id, path.c_str(), &link, H5P_DEFAULT) < 0)
    fail(file.path, fmt::format("look for '{}'", path));
  COMERA_CHECK(link.type == H5L_TYPE_HARD,
               "{}: '{}' is a link to {}, which is not followed; write the file with its contents in it",
               file.path.string(), path, link.type == H5L_TYPE_EXTERNAL ? "another file" : "another name");
}

}  // namespace

// Whether every link on the path exists: H5Lexists fails instead of returning false if a parent is missing.
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
  // A group that contains itself would have no end.
  H5O_info_t info;
  if (H5Oget_info2(object, &info, H5O_INFO_BASIC) < 0) fail(file.path, fmt::format("open '{}'", name));
  COMERA_CHECK(info.rc <= 1,
               "{}: '{}' has {} names, but nothing in such a file has more than one; the file is damaged",
               file.path.string(), name, info.rc);
  return object;
}

namespace {

// The filter's name by its registered number, or else as in the file.
std::string filter_name(H5Z_filter_t filter, const char* written) {
  static const std::map<int, const char*> names = {
      {4, "SZIP"},           {307, "bzip2"}, {32000, "LZF"},       {32001, "Blosc"}, {32004, "LZ4"},
      {32008, "Bitshuffle"}, {32013, "ZFP"}, {32015, "Zstandard"}, {32026, "Blosc2"}};
  const auto found = names.find(filter);
  if (found != names.end()) return found->second;
  return *written != 0 ? written : "an unknown filter";
}

// Truth values as h5py writes them: 0 is FALSE and 1 is TRUE.
bool is_truth(hid_t type) {
  if (H5Tget_class(type) != H5T_ENUM || H5Tget_nmembers(type) != 2) return false;
  for (const auto& [name, expected] : {std::pair("FALSE", 0), std::pair("TRUE", 1)}) {
    std::int64_t value = -1;
    // Values are read in the file's type, and converted in place.
    const Handle base(H5Tget_super(type), H5Tclose);
    if (base < 0 || H5Tget_class(base) != H5T_INTEGER || H5Tget_size(base) > sizeof value ||
        H5Tenum_valueof(type, name, &value) < 0 ||
        H5Tconvert(base, H5T_NATIVE_INT64, 1, &value, nullptr, H5P_DEFAULT) < 0 || value != expected) {
      H5Eclear2(H5E_DEFAULT);
      return false;
    }
  }
  return true;
}

// For a type that is neither numeric nor boolean.
const char* kind_of(hid_t type) {
  switch (H5Tget_class(type)) {
    case H5T_VLEN:
      return "rows of varying length; write an array of whole rows, padded to one length";
    case H5T_STRING:
      return "text; integers or floating-point numbers were expected";
    case H5T_ENUM:
      return "values of an enumeration; write them as integers";
    case H5T_COMPOUND:
      return "records of several fields; write a dataset for each field";
    case H5T_ARRAY:
      return "arrays as its elements; write them as one more dimension";
    default:
      return "neither integers nor floating-point numbers";
  }
}

// Values stored in external files are not read either.
void check_layout(const State& file, hid_t dataset, std::string_view path) {
  const Handle properties(H5Dget_create_plist(dataset), H5Pclose);
  if (properties < 0) fail(file.path, fmt::format("read the layout of '{}'", path));
  COMERA_CHECK(H5Pget_layout(properties) != H5D_VIRTUAL && H5Pget_external_count(properties) <= 0,
               "{}: the values of '{}' are stored in other files, which are not read; write the file with "
               "its contents in it",
               file.path.string(), path);
}

// Filters that cannot be decoded here would otherwise fail only on reading, with an HDF5 error number.
void check_filters(const State& file, hid_t dataset, std::string_view path) {
  const Handle properties(H5Dget_create_plist(dataset), H5Pclose);
  const int count = properties < 0 ? -1 : H5Pget_nfilters(properties);
  if (count < 0) fail(file.path, fmt::format("read the filters of '{}'", path));
  for (int i = 0; i < count; ++i) {
    std::array<char, 64> name{};
    unsigned flags = 0, config = 0;
    std::size_t values = 0;
    const H5Z_filter_t filter = H5Pget_filter2(properties, static_cast<unsigned>(i), &flags, &values, nullptr,
                                               name.size() - 1, name.data(), &config);
    if (filter < 0) fail(file.path, fmt::format("read the filters of '{}'", path));
    COMERA_CHECK(
        H5Zfilter_avail(filter) > 0,
        "{}: '{}' is compressed with {} (filter {} of HDF5), which is not read; write it again with gzip "
        "(h5py: compression='gzip') or uncompressed",
        file.path.string(), path, filter_name(filter, name.data()), static_cast<int>(filter));
  }
}

// The bytes of all elements, of at most 8 bytes each, must not overflow.
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
  check_filters(file, object, path);
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
  } else if (is_truth(type)) {
    info.dtype = DType::uint8;
  } else {
    throw Error(fmt::format("{}: '{}' holds {}", file.path.string(), path, kind_of(type)));
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

// Without times, equal contents give equal files.
Handle dataset_properties() {
  Handle creation(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  H5Pset_obj_track_times(creation, false);
  return creation;
}

}  // namespace comera::storage::hdf5
