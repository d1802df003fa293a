#include "data/vectors/vector_file.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "data/vectors/similarity.h"
#include "storage/durable_file.h"

namespace comera::data {

namespace {

constexpr const char* format_name = "comera-vectors";
constexpr std::int64_t version = 2;  // 1 had neither texts nor places
constexpr std::int64_t block_bytes = 8 << 20;

// Texts of rows as one dataset of bytes, and the offsets of all rows in it.
class TextColumn {
 public:
  void add(const std::string& text) {
    bytes_.insert(bytes_.end(), text.begin(), text.end());
    offsets_.push_back(std::ssize(bytes_));
  }
  void write(storage::hdf5::File& file, const std::string& name) const {
    file.write<std::uint8_t>(name, bytes_);
    file.write<std::int64_t>(name + "_offsets", offsets_);
  }

 private:
  std::vector<std::uint8_t> bytes_;
  std::vector<std::int64_t> offsets_ = {0};
};

// Of an HDF5 file that others may have written.
template <class Read>
auto or_damaged(const storage::hdf5::File& file, const Read& read) {
  try {
    return read();
  } catch (const Error& error) {
    throw Error(fmt::format("{}: is damaged or of another kind: {}", file.name(), error.what()));
  }
}

}  // namespace

void write_vector_file(const std::filesystem::path& path, std::span<const float> vectors, std::int64_t width,
                       const std::vector<VectorPlace>& places, const VectorSource& source) {
  TextColumn paths, ids, texts;
  std::map<std::string, std::int64_t> known;
  std::vector<std::int64_t> lines, path_numbers;
  for (const VectorPlace& place : places) {
    const auto [found, added] = known.emplace(place.path, std::ssize(known));
    if (added) paths.add(place.path);
    path_numbers.push_back(found->second);
    lines.push_back(place.line);
    ids.add(place.id);
    texts.add(place.text);
  }
  storage::DurableFile durable(path);
  storage::hdf5::File file = storage::hdf5::File::create(durable.temporary());
  file.write<float>("vectors", vectors, {std::ssize(places), width});
  file.write<std::int64_t>("lines", lines);
  file.write<std::int64_t>("path_numbers", path_numbers);
  paths.write(file, "paths");
  ids.write(file, "ids");
  texts.write(file, "texts");
  file.set_attribute("/", "format", std::string(format_name));
  file.set_attribute("/", "version", version);
  file.set_attribute("/", "pooling", source.pooling);
  file.set_attribute("/", "normalized", std::int64_t{source.normalized ? 1 : 0});
  file.set_attribute("/", "length", source.length);
  file.set_attribute("/", "model", source.model);
  file.set_attribute("/", "checkpoint", source.checkpoint);
  file.set_attribute("/", "checkpoint_bytes", source.bytes);
  file.set_attribute("/", "checkpoint_crc32", source.crc32);
  file.close();
  durable.commit();
}

VectorFile::VectorFile(const std::filesystem::path& path) : file_(storage::hdf5::File::open(path)) {
  if (!file_.has_attribute("/", "format") || file_.string_attribute("/", "format") != format_name)
    throw Error(fmt::format("{}: holds no vectors; give a file that `comera embed --output INDEX.h5` wrote",
                            path.string()));
  if (!file_.has_attribute("/", "version"))
    throw Error(
        fmt::format("{}: was written by an older version, without the texts of its rows; write it "
                    "again with `comera embed`",
                    path.string()));
  or_damaged(file_, [&] {
    source_ = {.model = file_.string_attribute("/", "model"),
               .checkpoint = file_.string_attribute("/", "checkpoint"),
               .bytes = file_.int64_attribute("/", "checkpoint_bytes"),
               .crc32 = file_.int64_attribute("/", "checkpoint_crc32"),
               .pooling = file_.string_attribute("/", "pooling"),
               .normalized = file_.int64_attribute("/", "normalized") != 0,
               .length = file_.int64_attribute("/", "length")};
    const storage::hdf5::DatasetInfo info = file_.info("vectors");
    COMERA_CHECK(info.shape.size() == 2 && info.dtype == DType::float32, "vectors is no matrix of float32");
    rows_ = info.shape[0], width_ = info.shape[1];
    for (const char* name : {"lines", "path_numbers"})
      COMERA_CHECK(file_.info(name).elements() == rows_, "{} has not one entry for each of {} rows", name,
                   rows_);
    return 0;
  });
}

std::vector<std::vector<VectorFile::Hit>> VectorFile::nearest(std::span<const float> queries,
                                                              std::int64_t most) const {
  const auto width = static_cast<std::size_t>(width_);
  const std::size_t count = queries.size() / width;
  const auto better = [](const Hit& a, const Hit& b) {
    return a.score > b.score || (a.score == b.score && a.row < b.row);
  };
  std::vector<std::vector<Hit>> nearest(count);  // heaps, the worst hit first
  const storage::hdf5::Dataset vectors = file_.dataset("vectors");
  const std::int64_t at_once =
      std::max<std::int64_t>(1, block_bytes / (width_ * static_cast<std::int64_t>(sizeof(float))));
  std::vector<float> block(static_cast<std::size_t>(std::min(at_once, rows_)) * width);
  for (std::int64_t begin = 0; begin < rows_; begin += at_once) {
    const std::int64_t size = std::min(at_once, rows_ - begin);
    vectors.read_rows(begin, size, DType::float32, block.data());
    for (std::int64_t i = 0; i < size; ++i) {
      const auto row = std::span<const float>(block).subspan(static_cast<std::size_t>(i) * width, width);
      const float length = source_.normalized ? 1.F : std::sqrt(dot(row, row));
      for (std::size_t query = 0; query < count; ++query) {
        const float product = dot(row, queries.subspan(query * width, width));
        const Hit hit{begin + i, length > 0 ? product / length : 0};
        std::vector<Hit>& heap = nearest[query];
        if (std::ssize(heap) == most && !better(hit, heap.front())) continue;
        if (std::ssize(heap) == most) {
          std::ranges::pop_heap(heap, better);
          heap.pop_back();
        }
        heap.push_back(hit);
        std::ranges::push_heap(heap, better);
      }
    }
  }
  for (std::vector<Hit>& heap : nearest) std::ranges::sort(heap, better);
  return nearest;
}

std::string VectorFile::text_of(const char* name, std::int64_t row) const {
  const std::string offsets_name = std::string(name) + "_offsets";
  const storage::hdf5::Dataset offsets = file_.dataset(offsets_name), bytes = file_.dataset(name);
  COMERA_CHECK(row >= 0 && row + 1 < offsets.rows(), "{} has no row {}", offsets_name, row);
  const std::vector<std::int64_t> range = offsets.read_rows<std::int64_t>(row, 2);
  COMERA_CHECK(range[0] >= 0 && range[0] <= range[1] && range[1] <= bytes.rows(), "{} are out of range",
               offsets_name);
  if (range[0] == range[1]) return {};
  const std::vector<std::uint8_t> text = bytes.read_rows<std::uint8_t>(range[0], range[1] - range[0]);
  return {text.begin(), text.end()};
}

VectorPlace VectorFile::place(std::int64_t row) const {
  return or_damaged(file_, [&] {
    const std::int64_t path = file_.dataset("path_numbers").read_rows<std::int64_t>(row, 1)[0];
    return VectorPlace{.path = text_of("paths", path),
                       .line = file_.dataset("lines").read_rows<std::int64_t>(row, 1)[0],
                       .id = text_of("ids", row),
                       .text = text_of("texts", row)};
  });
}

}  // namespace comera::data
