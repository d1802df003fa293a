#include "data/masking/masked_rows.h"

#include <algorithm>
#include <limits>

namespace comera::data {
namespace {

constexpr std::int64_t block_rows = 64;
constexpr std::int64_t widest_row = 65536;                       // entries: the limit for a damaged shape
constexpr std::int64_t checked_at_once = 16 * block_rows * 512;  // entries

const std::int32_t* row_of(const std::vector<std::int32_t>& values, std::int64_t row, std::int64_t width) {
  return values.data() + row * width;
}

}  // namespace

storage::hdf5::Dataset MaskedRowFile::open(const char* dataset, std::size_t dims) {
  COMERA_CHECK(file_.exists(dataset),
               "{}: has no '{}'; a file of masked sequences needs input_ids, input_mask, segment_ids, "
               "masked_lm_positions and masked_lm_ids",
               name_, dataset);
  storage::hdf5::Dataset opened = file_.dataset(dataset);
  const storage::hdf5::DatasetInfo& info = opened.info();
  COMERA_CHECK(info.dtype != DType::float32 && info.dtype != DType::float64,
               "{}: '{}' holds floating-point numbers, integers were expected", name_, dataset);
  // Labels may be in a column.
  const bool fits = info.shape.size() == dims || (dims == 1 && info.shape.size() == 2 && info.shape[1] == 1);
  COMERA_CHECK(fits, "{}: '{}' has {} dimensions, {} were expected", name_, dataset, info.shape.size(), dims);
  COMERA_CHECK(info.shape.size() < 2 || info.shape[1] <= widest_row,
               "{}: the rows of '{}' have {} entries, at most {} are read", name_, dataset, info.shape[1],
               widest_row);
  COMERA_CHECK(rows_ < 0 || opened.rows() == rows_, "{}: '{}' has {} rows, 'input_ids' has {}", name_,
               dataset, opened.rows(), rows_);
  return opened;
}

MaskedRowFile::MaskedRowFile(const std::filesystem::path& path, std::int32_t vocabulary,
                             const SpecialIds& special)
    : name_(path.string()), file_(storage::hdf5::File::open(path)) {
  ids_ = open("input_ids", 2);
  rows_ = ids_.rows();
  mask_ = open("input_mask", 2);
  segments_ = open("segment_ids", 2);
  positions_ = open("masked_lm_positions", 2);
  targets_ = open("masked_lm_ids", 2);
  has_labels_ = file_.exists("next_sentence_labels");
  if (has_labels_) labels_ = open("next_sentence_labels", 1);
  width_ = ids_.info().shape[1];
  most_targets_ = positions_.info().shape[1];
  for (const auto& [dataset, what] : {std::pair(&mask_, "input_mask"), std::pair(&segments_, "segment_ids")})
    COMERA_CHECK(dataset->info().shape[1] == width_,
                 "{}: the rows of '{}' have {} entries, those of 'input_ids' {}", name_, what,
                 dataset->info().shape[1], width_);
  COMERA_CHECK(targets_.info().shape[1] == most_targets_,
               "{}: the rows of 'masked_lm_ids' have {} entries, those of 'masked_lm_positions' {}", name_,
               targets_.info().shape[1], most_targets_);

  std::string hashes;
  const auto digest = [&](const std::vector<std::int32_t>& values) {
    hashes +=
        storage::hash128({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(std::int32_t)})
            .hex();
  };
  Rows rows;
  // Not reserved: only rows that really exist may take memory.
  const std::int64_t at_once = checked_at_once / std::max<std::int64_t>({width_, most_targets_, 512});
  for (std::int64_t begin = 0; begin < rows_; begin += at_once) {
    const std::int64_t some = std::min(at_once, rows_ - begin);
    const std::vector<std::int32_t> mask = mask_.read_rows<std::int32_t>(begin, some);
    for (std::int64_t row = 0; row < some; ++row) {
      const std::int32_t* from = row_of(mask, row, width_);
      const auto length = std::find(from, from + width_, 0) - from;
      const bool whole = std::all_of(from, from + length, [](auto value) { return value == 1; }) &&
                         std::all_of(from + length, from + width_, [](auto value) { return value == 0; });
      COMERA_CHECK(whole, "{}: row {} of 'input_mask' is not a run of 1 followed by 0", name_, begin + row);
      COMERA_CHECK(length > 0, "{}: row {} of 'input_mask' has no token", name_, begin + row);
      lengths_.push_back(static_cast<std::int32_t>(length));
      tokens_ += length;
    }
    read(begin, some, rows);
    for (std::int64_t row = 0; row < some; ++row) check_row(rows, row, vocabulary, special);
    digest(mask);
    for (const auto* values : {&rows.ids, &rows.segments, &rows.positions, &rows.targets, &rows.labels})
      digest(*values);
  }
  content_ = storage::hash128(hashes);
}

void MaskedRowFile::check_row(const Rows& rows, std::int64_t row, std::int32_t vocabulary,
                              const SpecialIds& special) {
  const std::int64_t number = rows.begin + row;
  const std::int64_t length = lengths_[static_cast<std::size_t>(number)];
  const std::int32_t* ids = row_of(rows.ids, row, width_);
  const auto outside = [&](std::int32_t id) { return id < 0 || id >= vocabulary; };
  const auto* bad = std::find_if(ids, ids + length, outside);
  COMERA_CHECK(bad == ids + length, "{}: row {} has token id {}, but the vocabulary has {} pieces", name_,
               number, *bad, vocabulary);
  COMERA_CHECK(
      ids[0] == special.cls,
      "{}: row {} begins with id {}, but [CLS] is {} in the tokenizer; was the file made with another one?",
      name_, number, ids[0], special.cls);
  const std::int32_t* segments = row_of(rows.segments, row, width_);
  const auto* wrong = std::find_if(segments, segments + length, [](std::int32_t segment) {
    return segment < 0 || segment == std::numeric_limits<std::int32_t>::max();
  });
  COMERA_CHECK(wrong == segments + length, "{}: row {} has segment id {}", name_, number, *wrong);
  types_ = std::max(types_, *std::max_element(segments, segments + length) + 1);
  target_count_ += check_targets(rows, row, vocabulary, special);
}

// A position of 0 is that of [CLS], which is never predicted: it is padding, from the last target to the
// row's end.
std::int64_t MaskedRowFile::check_targets(const Rows& rows, std::int64_t row, std::int32_t vocabulary,
                                          const SpecialIds& special) const {
  const std::int64_t number = rows.begin + row;
  const std::int64_t length = lengths_[static_cast<std::size_t>(number)];
  const auto outside = [&](std::int32_t id) { return id < 0 || id >= vocabulary; };
  const std::int32_t* positions = row_of(rows.positions, row, most_targets_);
  const std::int32_t* targets = row_of(rows.targets, row, most_targets_);
  std::int32_t before = 0;
  std::int64_t i = 0;
  for (; i < most_targets_ && positions[i] != 0; ++i) {
    COMERA_CHECK(positions[i] > 0 && positions[i] < length,
                 "{}: row {} has a target at position {}, but the row has {} tokens", name_, number,
                 positions[i], length);
    COMERA_CHECK(positions[i] > before,
                 "{}: row {} has a target at position {} after one at {}; they must rise", name_, number,
                 positions[i], before);
    COMERA_CHECK(!outside(targets[i]), "{}: row {} has target id {}, but the vocabulary has {} pieces", name_,
                 number, targets[i], vocabulary);
    before = positions[i];
  }
  const std::int32_t* end = positions + most_targets_;
  const auto* behind = std::find_if(positions + i, end, [](std::int32_t position) { return position != 0; });
  COMERA_CHECK(
      behind == end,
      "{}: row {} has a target at position {} behind a position of 0; 0 is for padding behind the last "
      "target",
      name_, number, *behind);
  const auto* label = std::find_if(targets + i, targets + most_targets_,
                                   [&](std::int32_t id) { return id > 0 && id != special.pad; });
  COMERA_CHECK(
      label == targets + most_targets_,
      "{}: row {} has target id {} at position 0, where no target can be; 0 is for padding, with 0 or "
      "[PAD] in 'masked_lm_ids'",
      name_, number, *label);
  return i;
}

void MaskedRowFile::check_types(std::int32_t types) const {
  if (types_ <= types) return;
  for (std::int64_t row = 0; row < rows_; ++row) {
    const std::vector<std::int32_t> segments = segments_.read_rows<std::int32_t>(row, 1);
    const auto end = segments.begin() + lengths_[static_cast<std::size_t>(row)];
    const auto bad = std::find_if(segments.begin(), end, [&](std::int32_t id) { return id >= types; });
    COMERA_CHECK(bad == end, "{}: row {} has segment id {}, but the recipe has model.types = {}", name_, row,
                 *bad, types);
  }
}

void MaskedRowFile::read(std::int64_t begin, std::int64_t count, Rows& to) const {
  const auto read = [&](const storage::hdf5::Dataset& dataset, std::int64_t width,
                        std::vector<std::int32_t>& values) {
    values.resize(static_cast<std::size_t>(count * width));
    dataset.read_rows(begin, count, DType::int32, values.data());
  };
  to.begin = begin;
  read(ids_, width_, to.ids);
  read(segments_, width_, to.segments);
  read(positions_, most_targets_, to.positions);
  read(targets_, most_targets_, to.targets);
  if (has_labels_) read(labels_, 1, to.labels);
}

void MaskedRowFile::take(const Rows& rows, std::int64_t row, bool restored, Sample& to) const {
  const std::int64_t length = lengths_[static_cast<std::size_t>(rows.begin + row)];
  const std::int32_t* ids = row_of(rows.ids, row, width_);
  const std::int32_t* segments = row_of(rows.segments, row, width_);
  const std::int32_t* positions = row_of(rows.positions, row, most_targets_);
  const std::int32_t* targets = row_of(rows.targets, row, most_targets_);
  to.ids.assign(ids, ids + length);
  to.type_ids.assign(segments, segments + length);
  to.label = has_labels_ ? rows.labels[static_cast<std::size_t>(row)] : 0;
  to.score = 0;
  to.masked = !restored;
  const std::int32_t* end = std::find(positions, positions + most_targets_, 0);
  const auto count = end - positions;
  if (restored) {
    for (std::int64_t i = 0; i < count; ++i) to.ids[static_cast<std::size_t>(positions[i])] = targets[i];
    to.targets = {};
  } else {
    to.targets.positions.assign(positions, end);
    to.targets.ids.assign(targets, targets + count);
  }
}

MaskedRowSet::MaskedRowSet(const std::vector<std::filesystem::path>& files, std::int32_t vocabulary,
                           const SpecialIds& special)
    : vocabulary_(vocabulary), special_(special) {
  COMERA_CHECK(!files.empty(), "no file of masked sequences was given");
  files_.reserve(files.size());
  for (const auto& path : files) {
    const MaskedRowFile& file = files_.emplace_back(path, vocabulary, special);
    rows_ += file.rows();
    targets_ += file.targets();
    types_ = std::max(types_, file.types());
  }
  COMERA_CHECK(rows_ > 0, "{}: its files of masked sequences have no rows", files[0].parent_path().string());
}

std::string MaskedRowSet::fingerprint() const {
  std::string hashes;
  for (const MaskedRowFile& file : files_) hashes += file.content().hex();
  return storage::hash128(hashes).hex();
}

std::int64_t MaskedRowSet::row_bytes() const {
  return std::ranges::max_element(files_, {}, &MaskedRowFile::row_bytes)->row_bytes();
}

MaskedRows::MaskedRows(const MaskedRowSet& set, std::int64_t length, bool restored, std::int64_t cache_bytes)
    : set_(set), restored_(restored), first_{0}, blocks_(cache_bytes, block_rows * set.row_bytes()) {
  for (const MaskedRowFile& file : set.files()) {
    first_.push_back(first_.back() + file.rows());
    const auto longest = std::max_element(file.lengths().begin(), file.lengths().end());
    if (longest == file.lengths().end()) continue;
    COMERA_CHECK(
        *longest <= length,
        "{}: row {} has {} tokens, more than the {} of a sequence here: give the phase that length, or "
        "files with shorter rows",
        file.name(), longest - file.lengths().begin(), *longest, length);
  }
}

std::int64_t MaskedRows::kept() const { return static_cast<std::int64_t>(blocks_.most()) * block_rows; }

std::vector<std::int32_t> MaskedRows::lengths() const {
  std::vector<std::int32_t> lengths;
  lengths.reserve(static_cast<std::size_t>(count()));
  for (const MaskedRowFile& file : set_.files())
    lengths.insert(lengths.end(), file.lengths().begin(), file.lengths().end());
  return lengths;
}

std::int64_t MaskedRows::length(std::int64_t sample) const {
  const auto [file, row] = find(sample);
  return set_.files()[file].lengths()[static_cast<std::size_t>(row)];
}

std::pair<std::size_t, std::int64_t> MaskedRows::find(std::int64_t sample) const {
  const auto file =
      static_cast<std::size_t>(std::upper_bound(first_.begin(), first_.end(), sample) - first_.begin() - 1);
  return {file, sample - first_[file]};
}

const MaskedRowFile::Rows& MaskedRows::block(std::size_t file, std::int64_t index) {
  return blocks_.get(file, index, [&](MaskedRowFile::Rows& rows) {
    const MaskedRowFile& from = set_.files()[file];
    const std::int64_t begin = index * block_rows;
    from.read(begin, std::min(block_rows, from.rows() - begin), rows);
  });
}

void MaskedRows::read(std::int64_t sample, Sample& to) {
  const auto [file, row] = find(sample);
  set_.files()[file].take(block(file, row / block_rows), row % block_rows, restored_, to);
}

}  // namespace comera::data
