#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/clicks/click_log.h"

namespace comera::data {

struct StringHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};

// A map from the values of a column to numbers.
template <class Number>
using ClickValues = std::unordered_map<std::string, Number, StringHash, std::equal_to<>>;

// log(1 + max(x, 0)); a missing number is 0.
float click_number(std::optional<std::int64_t> value);

// The row of a table with this height for a value of this column: a 64-bit hash of both, modulo the height. A
// missing value ("") is hashed as well. The function is part of file formats and must not change.
std::int32_t hashed_click_id(std::string_view value, std::int64_t column, std::int64_t height);

// How the rows of logs in one format become numeric features and the rows of embedding tables, with one table
// per categorical column.
class ClickEncoding {
 public:
  // Uses hashed_click_id(), with one height per column.
  static ClickEncoding hashed(ClickFormat format, std::vector<std::int64_t> heights);
  // From a file written by save(). Error if it is damaged or another file.
  static ClickEncoding load(const std::filesystem::path& path);
  // Written completely or not at all, sealed with a checksum.
  void save(const std::filesystem::path& path) const;

  ClickFormat format() const { return format_; }
  bool has_vocabulary() const { return threshold_ > 0; }
  // Rows of each table: every id is smaller.
  const std::vector<std::int64_t>& heights() const { return heights_; }
  std::int64_t dense_features() const {
    return static_cast<std::int64_t>(columns_of(format_).dense_features.size());
  }
  std::int64_t tables() const { return static_cast<std::int64_t>(heights_.size()); }
  // A word that differs between different encodings: "criteo-vocabulary-10-" or "criteo-hash-" and 32
  // hexadecimal digits.
  std::string fingerprint() const;

  std::int32_t id(std::string_view value, std::int64_t column) const;
  // Writes numbers() values and tables() ids.
  void encode(const ClickRow& row, float* dense_features, std::int32_t* ids) const;

 private:
  friend class ClickVocabulary;
  void index();  // fills values_ from words_

  ClickFormat format_ = ClickFormat::criteo;
  std::int64_t threshold_ = 0;  // of a vocabulary; 0: hashed
  std::vector<std::int64_t> heights_;
  std::vector<std::vector<std::string>> words_;    // per column: the value of id i + 1
  std::vector<ClickValues<std::int32_t>> values_;  // per column: the id of a value
};

// Counts the values of each column in the added rows, which should be training rows only. Memory: about 80
// bytes per distinct value.
class ClickVocabulary {
 public:
  explicit ClickVocabulary(ClickFormat format);

  void add(const ClickRow& row);
  // The encoding with ids 1, 2, … for values that occur at least `threshold` times, most frequent first and
  // ties in byte order, and 0 for all others and for missing values. It therefore depends only on the counts.
  ClickEncoding finish(std::int64_t threshold) const;

 private:
  ClickFormat format_;
  std::vector<ClickValues<std::int64_t>> counts_;
};

}  // namespace comera::data
