#include "data/clicks/click_shards.h"

#include <algorithm>
#include <cmath>

#include "data/shards/shard.h"
#include "storage/durable_file.h"
#include "storage/folder.h"

namespace comera::data {

namespace {

constexpr std::int64_t buffered_rows = 4096;
// Small chunks: HDF5 caches those of up to 1 MiB, so that reading nearby rows does not fetch the same chunk
// again.
constexpr storage::hdf5::StreamOptions buffered = {.chunk_rows = buffered_rows};
constexpr std::int64_t block = 1 << 16;  // rows per read

Error incomplete(const std::filesystem::path& folder, const std::string& what) {
  return Error(fmt::format("the click shards in {} are incomplete: {}; make them again from the logs",
                           folder.string(), what));
}

void check_shape(const std::string& name, const storage::hdf5::Dataset& dataset, const char* what,
                 DType dtype, const std::vector<std::int64_t>& shape) {
  const storage::hdf5::DatasetInfo& found = dataset.info();
  COMERA_CHECK(
      found.dtype == dtype && found.shape == shape &&
          found.stored_bytes >= found.elements() * static_cast<std::int64_t>(size_of(dtype)),
      "{}: '{}' does not hold {} rows as it should; the shard is damaged: make it again from the logs", name,
      what, shape[0]);
}

template <class T>
void add_hash(std::string& hashes, const std::vector<T>& values) {
  hashes += storage::hash128({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)}).hex();
}

// Sorted by name, and thus in order.
std::vector<std::filesystem::path> find_shards(const std::filesystem::path& folder,
                                               const std::string& split) {
  constexpr const char* advice =
      "make them from logs with 'comera clicks data', or try 'comera clicks synthetic'";
  std::error_code code;
  std::vector<std::filesystem::path> paths;
  bool others = false;
  for (std::filesystem::directory_iterator entry(folder, code), end; !code && entry != end;
       entry.increment(code)) {
    const std::string name = entry->path().filename().string();
    if (!name.ends_with(".h5")) continue;
    if (name.starts_with(split + "-")) paths.push_back(entry->path());
    others = others || name.starts_with(split == "train" ? "validation-" : "train-");
  }
  storage::refuse_missing(folder, "folder of click shards", advice);
  COMERA_CHECK(code != std::errc::not_a_directory, "{}: is a file; give the folder of the shards",
               folder.string());
  COMERA_CHECK(!code, "{}: could not list the folder: {}", folder.string(), code.message());
  if (paths.empty() && others)
    throw Error(split == "train"
                    ? fmt::format("{}: all of its rows are held out, so there is nothing to train on; make "
                                  "it again with a smaller --held-out",
                                  folder.string())
                    : fmt::format("{}: none of its rows are held out, so there is nothing to score; score "
                                  "its training rows, or make it again with --held-out above 0",
                                  folder.string()));
  COMERA_CHECK(!paths.empty(), "{}: holds no shards of clicks; {}", folder.string(), advice);
  std::ranges::sort(paths);
  return paths;
}

}  // namespace

ClickShardWriter::ClickShardWriter(std::filesystem::path folder, ClickShardInfo info,
                                   std::int64_t rows_per_shard)
    : folder_(std::move(folder)),
      info_(std::move(info)),
      limit_(rows_per_shard),
      files_(folder_, info_.split, click_shard_seal) {
  COMERA_CHECK(limit_ > 0, "a shard must hold at least one row, the limit is {}", limit_);
  COMERA_CHECK(info_.tables() > 0, "a shard of clicks needs at least one table");
}

void ClickShardWriter::open() {
  storage::hdf5::File& file = files_.open();
  labels_ = file.create_dataset("labels", DType::float32, {}, buffered);
  if (info_.dense_features > 0)
    numbers_ = file.create_dataset("numbers", DType::float32, {info_.dense_features}, buffered);
  ids_ = file.create_dataset("ids", DType::int32, {info_.tables()}, buffered);
  shard_rows_ = 0;
}

void ClickShardWriter::add(float label, const float* dense_features, const std::int32_t* ids) {
  COMERA_CHECK(!files_.sealed(), "the shards of split '{}' are sealed: nothing can be added", info_.split);
  if (!files_.is_open()) open();
  buffer_.labels.push_back(label);
  buffer_.dense_features.insert(buffer_.dense_features.end(), dense_features,
                                dense_features + info_.dense_features);
  buffer_.ids.insert(buffer_.ids.end(), ids, ids + info_.tables());
  ++rows_;
  if (label != 0) ++clicks_;
  if (buffer_.count() == buffered_rows || shard_rows_ + buffer_.count() == limit_) write_buffer();
  if (shard_rows_ == limit_) complete();
}

void ClickShardWriter::write_buffer() {
  labels_.append(std::span<const float>(buffer_.labels));
  if (info_.dense_features > 0) numbers_.append(std::span<const float>(buffer_.dense_features));
  ids_.append(std::span<const std::int32_t>(buffer_.ids));
  shard_rows_ += buffer_.count();
  buffer_.resize(0, info_.dense_features, info_.tables());
}

void ClickShardWriter::complete() {
  write_buffer();
  storage::hdf5::File& file = files_.file();
  file.set_attribute("/", "format", click_shard_format);
  file.set_attribute("/", "version", click_shard_version);
  file.set_attribute("/", "encoding", info_.encoding);
  file.set_attribute("/", "split", info_.split);
  file.set_attribute("/", "numbers", info_.dense_features);
  file.set_attribute("/", "heights", info_.heights);
  file.set_attribute("/", "rows", shard_rows_);
  files_.close();
}

void ClickShardWriter::seal() {
  if (files_.is_open()) complete();
  files_.seal();
}

void ClickShardWriter::finish() {
  seal();
  remove_shards(folder_, info_.split);
  publish();
}

ClickShardSet::ClickShardSet(const std::filesystem::path& folder, const std::string& split) {
  const std::vector<std::filesystem::path> paths = find_shards(folder, split);
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const std::string expected = shard_name(split, static_cast<std::int64_t>(i));
    if (paths[i].filename() != expected) throw incomplete(folder, expected + " is missing");
  }
  info_.split = split;
  shards_.reserve(paths.size());
  for (const auto& path : paths) open(path, static_cast<std::int64_t>(paths.size()));
  for (const Shard& shard : shards_) check_contents(shard);
}

void ClickShardSet::open(const std::filesystem::path& path, std::int64_t shards) {
  storage::check_seal(path, click_shard_seal);
  Shard shard;
  shard.name = path.string();
  shard.file = storage::hdf5::File::open(path);
  const storage::hdf5::File& file = shard.file;
  COMERA_CHECK(
      file.has_attribute("/", "format") && file.string_attribute("/", "format") == click_shard_format,
      "{}: is not a shard of clicks; make it again from the logs", shard.name);
  const std::int64_t version = file.int64_attribute("/", "version");
  COMERA_CHECK(
      version <= click_shard_version,
      "{}: has version {} of the format of click shards, this program reads up to {}; use a newer one",
      shard.name, version, click_shard_version);
  if (!file.has_attribute("/", "shards"))
    throw incomplete(path.parent_path(), path.filename().string() + " is of a build that did not finish");
  const auto index = static_cast<std::int64_t>(shards_.size());
  if (file.int64_attribute("/", "shards") != shards || file.int64_attribute("/", "index") != index ||
      file.string_attribute("/", "split") != info_.split)
    throw incomplete(
        path.parent_path(),
        fmt::format("{} was made as {}, one of {} shards, and {} are there", path.filename().string(),
                    shard_name(file.string_attribute("/", "split"), file.int64_attribute("/", "index")),
                    file.int64_attribute("/", "shards"), shards));
  ClickShardInfo info = {.encoding = file.string_attribute("/", "encoding"),
                         .split = info_.split,
                         .dense_features = file.int64_attribute("/", "numbers"),
                         .heights = file.int64_list_attribute("/", "heights")};
  if (index == 0) info_ = info;
  COMERA_CHECK(info.encoding == info_.encoding && info.dense_features == info_.dense_features &&
                   info.heights == info_.heights,
               "{}: was made with another encoding than {}; make all shards of a folder with one", shard.name,
               shards_[0].name);
  const std::int64_t rows = file.int64_attribute("/", "rows");
  COMERA_CHECK(rows > 0 && info.dense_features >= 0 && info.tables() > 0,
               "{}: it cannot have {} rows of {} numbers and {} ids; make it again from the logs", shard.name,
               rows, info.dense_features, info.tables());
  shard.labels = file.dataset("labels");
  check_shape(shard.name, shard.labels, "labels", DType::float32, {rows});
  if (info.dense_features > 0) {
    shard.dense_features = file.dataset("numbers");
    check_shape(shard.name, shard.dense_features, "numbers", DType::float32, {rows, info.dense_features});
  }
  shard.ids = file.dataset("ids");
  check_shape(shard.name, shard.ids, "ids", DType::int32, {rows, info.tables()});
  shard.begin = rows_;
  shard.end = rows_ += rows;
  shards_.push_back(std::move(shard));
}

void ClickShardSet::check_rows(const Shard& shard, std::int64_t first, const ClickExamples& examples) const {
  const auto row_of = [&](std::int64_t element, std::int64_t per_row) {
    return first - shard.begin + element / per_row;
  };
  for (std::int64_t i = 0; i < examples.count(); ++i)
    COMERA_CHECK(examples.labels[i] == 0 || examples.labels[i] == 1,
                 "{}: row {} has label {}, which is neither 0 nor 1", shard.name, row_of(i, 1),
                 examples.labels[i]);
  const auto bad =
      std::ranges::find_if(examples.dense_features, [](float number) { return !std::isfinite(number); });
  COMERA_CHECK(bad == examples.dense_features.end(), "{}: row {} has a number that is not finite", shard.name,
               row_of(bad - examples.dense_features.begin(), info_.dense_features));
  const std::int64_t tables = info_.tables();
  for (std::int64_t i = 0; i < examples.count() * tables; ++i)
    COMERA_CHECK(examples.ids[i] >= 0 && examples.ids[i] < info_.heights[i % tables],
                 "{}: row {} has id {} in table {}, which has {} rows", shard.name, row_of(i, tables),
                 examples.ids[i], i % tables, info_.heights[i % tables]);
}

void ClickShardSet::check_contents(const Shard& shard) {
  ClickExamples examples;
  for (std::int64_t begin = shard.begin; begin < shard.end; begin += block) {
    read(begin, std::min(block, shard.end - begin), examples);
    check_rows(shard, begin, examples);
    clicks_ += std::ranges::count(examples.labels, 1.0f);
    add_hash(hashes_, examples.labels);
    add_hash(hashes_, examples.dense_features);
    add_hash(hashes_, examples.ids);
  }
}

std::string ClickShardSet::fingerprint() const {
  return storage::hash128(info_.encoding + " " + info_.split + " " + hashes_).hex();
}

void ClickShardSet::read(std::int64_t first, std::int64_t count, ClickExamples& examples) const {
  COMERA_CHECK(first >= 0 && count >= 0 && first <= rows_ - count,
               "{} has {} rows, {} rows from row {} on were asked for", info_.split, rows_, count, first);
  examples.resize(count, info_.dense_features, info_.tables());
  auto shard = std::ranges::upper_bound(shards_, first, {}, [](const Shard& s) { return s.end; });
  for (std::int64_t at = first; at < first + count; ++shard) {
    const std::int64_t begin = at - shard->begin, rows = std::min(shard->end, first + count) - at;
    const std::int64_t place = at - first;
    shard->labels.read_rows(begin, rows, DType::float32, examples.labels.data() + place);
    if (info_.dense_features > 0)
      shard->dense_features.read_rows(begin, rows, DType::float32,
                                      examples.dense_features.data() + place * info_.dense_features);
    shard->ids.read_rows(begin, rows, DType::int32, examples.ids.data() + place * info_.tables());
    at += rows;
  }
}

ClickSplit split_by_time(const std::vector<std::filesystem::path>& logs, ClickFormat format, double held_out,
                         const ClickProgress& progress) {
  if (!(held_out >= 0 && held_out <= 1))
    throw UsageError(fmt::format("the held-out share must be from 0 to 1, it is {}", held_out));
  ClickLogs reader(logs, format, progress);
  ClickRow row;
  std::int64_t rows = 0;
  while (reader.next(row)) ++rows;
  const auto validation = static_cast<std::int64_t>(std::round(static_cast<double>(rows) * held_out));
  COMERA_CHECK(validation < rows || held_out == 1, "none of {} rows is left for training; lower --held-out",
               rows);
  return {rows - validation, validation};
}

ClickEncoding learn_vocabulary(const std::vector<std::filesystem::path>& logs, ClickFormat format,
                               const ClickSplit& split, std::int64_t threshold,
                               const ClickProgress& progress) {
  ClickLogs reader(logs, format, progress);
  ClickVocabulary vocabulary(format);
  ClickRow row;
  for (std::int64_t i = 0; i < split.train && reader.next(row); ++i) vocabulary.add(row);
  return vocabulary.finish(threshold);
}

namespace {

ClickSplitCounts counts_of(const ClickShardWriter& writer) {
  return {writer.rows(), writer.clicks(), writer.shards()};
}

}  // namespace

ClickBuildCounts build_click_shards(const std::vector<std::filesystem::path>& logs,
                                    const ClickEncoding& encoding, const ClickSplit& split,
                                    const std::filesystem::path& output, std::int64_t rows_per_shard,
                                    const ClickProgress& progress, bool replace) {
  const ShardFolder folder(output, replace);
  for (const char* name : {"train", "validation"}) remove_unfinished_shards(output, name);
  const std::filesystem::path saved = output / click_encoding_file, unnamed = saved.string() + ".partial";
  const storage::DurableFile possible(saved);  // anything else of that name is an Error now, not later
  ClickShardInfo info = {.encoding = encoding.fingerprint(),
                         .split = "train",
                         .dense_features = encoding.dense_features(),
                         .heights = encoding.heights()};
  ClickShardWriter train(output, info, rows_per_shard);
  info.split = "validation";
  ClickShardWriter validation(output, info, rows_per_shard);

  ClickLogs reader(logs, encoding.format(), progress);
  ClickRow row;
  std::vector<float> dense_features(static_cast<std::size_t>(encoding.dense_features()));
  std::vector<std::int32_t> ids(static_cast<std::size_t>(encoding.tables()));
  while (reader.next(row)) {
    encoding.encode(row, dense_features.data(), ids.data());
    (train.rows() < split.train ? train : validation)
        .add(row.clicked ? 1 : 0, dense_features.data(), ids.data());
  }
  COMERA_CHECK(train.rows() == split.train && validation.rows() == split.validation,
               "the logs have {} rows, {} were counted before; do not change them meanwhile",
               train.rows() + validation.rows(), split.train + split.validation);
  train.seal();
  validation.seal();
  encoding.save(unnamed);
  // The old training part is removed first and the new one is added last, so that a kill in between leaves no
  // training part that could be read with another validation part.
  remove_shards(output, "train");
  remove_shards(output, "validation");
  storage::rename_durably(unnamed, saved);
  validation.publish();
  train.publish();
  return {counts_of(train), counts_of(validation), reader.left_out(), reader.skipped()};
}

}  // namespace comera::data
