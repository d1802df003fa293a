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

// From each value of a column to a number.
template <class Number>
using ClickValues = std::unordered_map<std::string, Number, StringHash, std::equal_to<>>;

// log(1 + max(x, 0)); a missing number is 0.
float click_number(std::optional<std::int64_t> value);

// The row of a table of this height for a value of this column: 64 bits of hash of both, modulo the height.
// A missing value ("") is hashed as well. It is part of file formats and must not change.
std::int32_t hashed_click_id(std::string_view value, std::int64_t column, std::int64_t height);

// How the rows of logs of one format become numbers and the rows of embedding tables, one table for each
// column of categories.
class ClickEncoding {
 public:
  // By hashed_click_id(), with as many heights as there are columns.
  static ClickEncoding hashed(ClickFormat format, std::vector<std::int64_t> heights);
  // By a file that save() wrote. Error if it is damaged or another file.
  static ClickEncoding load(const std::filesystem::path& path);
  // Whole or not at all, sealed with a checksum.
  void save(const std::filesystem::path& path) const;

  ClickFormat format() const { return format_; }
  bool has_vocabulary() const { return threshold_ > 0; }
  // Rows of each table: every id is below.
  const std::vector<std::int64_t>& heights() const { return heights_; }
  std::int64_t numbers() const { return static_cast<std::int64_t>(columns_of(format_).numbers.size()); }
  std::int64_t tables() const { return static_cast<std::int64_t>(heights_.size()); }
  // One word that differs for encodings that differ: "criteo-vocabulary-10-" or "criteo-hash-" and 32
  // hexadecimal digits.
  std::string fingerprint() const;

  std::int32_t id(std::string_view value, std::int64_t column) const;
  // numbers() and tables() of them.
  void encode(const ClickRow& row, float* numbers, std::int32_t* ids) const;

 private:
  friend class ClickVocabulary;
  void index();  // values_ from words_

  ClickFormat format_ = ClickFormat::criteo;
  std::int64_t threshold_ = 0;  // of a vocabulary; 0: hashed
  std::vector<std::int64_t> heights_;
  std::vector<std::vector<std::string>> words_;    // of each column: the value of id i + 1
  std::vector<ClickValues<std::int32_t>> values_;  // of each column: the id of a value
};

// Counts the values of each column in the rows it is given, which should be those for training only. Memory:
// some 80 bytes for each different value.
class ClickVocabulary {
 public:
  explicit ClickVocabulary(ClickFormat format);

  void add(const ClickRow& row);
  // The encoding whose ids are 1, 2, … for values that came at least `threshold` times, the most frequent
  // first and equally frequent ones in the order of their bytes, and 0 for the others and missing ones. So it
  // depends on the counts only.
  ClickEncoding finish(std::int64_t threshold) const;

 private:
  ClickFormat format_;
  std::vector<ClickValues<std::int64_t>> counts_;
};

}  // namespace comera::data
