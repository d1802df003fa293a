#include "data/clicks/click_encoding.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "storage/durable_file.h"
#include "storage/hash.h"
#include "storage/hdf5.h"
#include "storage/seal.h"

namespace comera::data {

namespace {

// hash128() reads words in memory order, so that another byte order would give other ids.
static_assert(std::endian::native == std::endian::little);

constexpr const char* encoding_format = "comera-click-encoding";
constexpr std::int64_t encoding_version = 1;
constexpr storage::SealKind encoding_seal = {"click encoding", encoding_version,
                                             "make it again from the logs"};

std::size_t count_of(ClickFormat format) { return columns_of(format).categories.size(); }

// The words of a column end to end, and the start of each.
struct Joined {
  std::vector<std::int64_t> offsets = {0};
  std::vector<std::uint8_t> bytes;
};

Joined join(const std::vector<std::string>& words) {
  Joined joined;
  for (const std::string& word : words) {
    joined.bytes.insert(joined.bytes.end(), word.begin(), word.end());
    joined.offsets.push_back(static_cast<std::int64_t>(joined.bytes.size()));
  }
  return joined;
}

std::vector<std::string> read_words(const storage::hdf5::File& file, const std::string& column,
                                    std::int64_t count) {
  const auto offsets = file.read<std::int64_t>(column + "/offsets");
  const auto bytes = file.read<std::uint8_t>(column + "/bytes");
  COMERA_CHECK(static_cast<std::int64_t>(offsets.size()) == count + 1 && offsets.front() == 0 &&
                   offsets.back() == static_cast<std::int64_t>(bytes.size()) &&
                   std::ranges::is_sorted(offsets),
               "{}: {} does not hold {} values; the file is damaged: make it again from the logs",
               file.name(), column, count);
  std::vector<std::string> words;
  words.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i)
    words.emplace_back(bytes.begin() + offsets[i], bytes.begin() + offsets[i + 1]);
  return words;
}

std::string group_of(std::size_t column) { return fmt::format("/columns/{:02}", column); }

void check_heights(ClickFormat format, const std::vector<std::int64_t>& heights) {
  COMERA_CHECK(heights.size() == count_of(format),
               "{} has {} columns of categories, heights of {} tables came", name_of(format),
               count_of(format), heights.size());
  for (const std::int64_t height : heights)
    COMERA_CHECK(height > 0 && height <= std::numeric_limits<std::int32_t>::max(),
                 "a table of {} rows cannot be; give each a height from 1 to {}", height,
                 std::numeric_limits<std::int32_t>::max());
}

}  // namespace

float click_number(std::optional<std::int64_t> value) {
  return static_cast<float>(std::log1p(static_cast<double>(std::max<std::int64_t>(value.value_or(0), 0))));
}

std::int32_t hashed_click_id(std::string_view value, std::int64_t column, std::int64_t height) {
  const std::uint64_t salt = storage::mix64(static_cast<std::uint64_t>(column));
  const std::uint64_t hash = storage::mix64(storage::hash128(value).low ^ salt);
  return static_cast<std::int32_t>(hash % static_cast<std::uint64_t>(height));
}

ClickEncoding ClickEncoding::hashed(ClickFormat format, std::vector<std::int64_t> heights) {
  check_heights(format, heights);
  ClickEncoding encoding;
  encoding.format_ = format;
  encoding.heights_ = std::move(heights);
  return encoding;
}

void ClickEncoding::index() {
  values_.resize(words_.size());
  for (std::size_t c = 0; c < words_.size(); ++c) {
    values_[c].reserve(words_[c].size());
    for (std::size_t i = 0; i < words_[c].size(); ++i)
      values_[c].emplace(words_[c][i], static_cast<std::int32_t>(i + 1));
  }
}

void ClickEncoding::save(const std::filesystem::path& path) const {
  storage::DurableFile target(path);
  storage::hdf5::File file =
      storage::hdf5::File::create(target.temporary(), {.user_block = storage::seal_bytes});
  file.set_attribute("/", "format", encoding_format);
  file.set_attribute("/", "version", encoding_version);
  file.set_attribute("/", "log", name_of(format_));
  file.set_attribute("/", "threshold", threshold_);
  file.set_attribute("/", "heights", heights_);
  for (std::size_t c = 0; c < words_.size(); ++c) {
    const Joined joined = join(words_[c]);
    file.write(group_of(c) + "/offsets", joined.offsets);
    file.write(group_of(c) + "/bytes", joined.bytes);
  }
  file.close();
  storage::seal(target.temporary(), encoding_seal);
  target.commit();
}

ClickEncoding ClickEncoding::load(const std::filesystem::path& path) {
  storage::check_seal(path, encoding_seal);
  const storage::hdf5::File file = storage::hdf5::File::open(path);
  COMERA_CHECK(file.has_attribute("/", "format") && file.string_attribute("/", "format") == encoding_format,
               "{}: is not an encoding of click logs", path.string());
  const std::int64_t version = file.int64_attribute("/", "version");
  COMERA_CHECK(version <= encoding_version,
               "{}: has version {} of its format, this program reads up to {}; use a newer one",
               path.string(), version, encoding_version);
  ClickEncoding encoding;
  encoding.format_ = click_format(file.string_attribute("/", "log"));
  encoding.threshold_ = file.int64_attribute("/", "threshold");
  encoding.heights_ = file.int64_list_attribute("/", "heights");
  check_heights(encoding.format_, encoding.heights_);
  if (!encoding.has_vocabulary()) return encoding;
  for (std::size_t c = 0; c < encoding.heights_.size(); ++c)
    encoding.words_.push_back(read_words(file, group_of(c), encoding.heights_[c] - 1));
  encoding.index();
  return encoding;
}

std::string ClickEncoding::fingerprint() const {
  std::string content = fmt::format("{}", fmt::join(heights_, " "));
  for (const auto& words : words_) {
    const Joined joined = join(words);
    for (const storage::Hash128& hash :
         {storage::hash128({reinterpret_cast<const char*>(joined.offsets.data()), 8 * joined.offsets.size()}),
          storage::hash128({reinterpret_cast<const char*>(joined.bytes.data()), joined.bytes.size()})})
      content += hash.hex();
  }
  const std::string kind = has_vocabulary() ? fmt::format("vocabulary-{}", threshold_) : "hash";
  return fmt::format("{}-{}-{}", name_of(format_), kind, storage::hash128(content).hex());
}

std::int32_t ClickEncoding::id(std::string_view value, std::int64_t column) const {
  if (!has_vocabulary()) return hashed_click_id(value, column, heights_[column]);
  const auto found = values_[column].find(value);
  return found == values_[column].end() ? 0 : found->second;
}

void ClickEncoding::encode(const ClickRow& row, float* dense_features, std::int32_t* ids) const {
  for (std::size_t i = 0; i < row.dense_features.size(); ++i)
    dense_features[i] = click_number(row.dense_features[i]);
  for (std::int64_t c = 0; c < tables(); ++c) ids[c] = id(row.categories[c], c);
}

ClickVocabulary::ClickVocabulary(ClickFormat format) : format_(format), counts_(count_of(format)) {}

void ClickVocabulary::add(const ClickRow& row) {
  for (std::size_t c = 0; c < counts_.size(); ++c) {
    const std::string_view value = row.categories[c];
    if (value.empty()) continue;
    if (const auto found = counts_[c].find(value); found != counts_[c].end())
      ++found->second;
    else
      counts_[c].emplace(value, 1);
  }
}

ClickEncoding ClickVocabulary::finish(std::int64_t threshold) const {
  COMERA_CHECK(threshold > 0, "values of a vocabulary must come at least once, not {} times", threshold);
  ClickEncoding encoding;
  encoding.format_ = format_;
  encoding.threshold_ = threshold;
  for (const auto& counts : counts_) {
    std::vector<std::pair<std::int64_t, std::string_view>> kept;
    for (const auto& [value, count] : counts)
      if (count >= threshold) kept.emplace_back(-count, value);
    std::ranges::sort(kept);
    std::vector<std::string> words;
    words.reserve(kept.size());
    for (const auto& [count, value] : kept) words.emplace_back(value);
    encoding.words_.push_back(std::move(words));
    encoding.heights_.push_back(static_cast<std::int64_t>(kept.size()) + 1);
  }
  check_heights(format_, encoding.heights_);
  encoding.index();
  return encoding;
}

}  // namespace comera::data
