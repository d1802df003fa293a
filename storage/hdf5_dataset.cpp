#include <algorithm>
#include <functional>
#include <numeric>

#include "storage/hdf5_handles.h"

namespace comera::storage::hdf5 {

std::int64_t DatasetInfo::elements() const {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
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
  // A small dataset is written only here, and failed writes are not retried.
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

Dataset::~Dataset() {
  if (id_ < 0) return;
  const Lock lock;
  // Closing may write, and failed writes are not retried: File::close() reports them.
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

}  // namespace comera::storage::hdf5
