#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/tables/line_reader.h"
#include "data/tables/table_reader.h"

namespace comera::data {

// Published logs of displayed advertisements.
enum class ClickFormat : std::uint8_t {
  criteo,  // tab-separated, no header: label, 13 integers, 26 values of 8 hexadecimal digits
  avazu,   // comma-separated, with a header or in the published order: id, click, hour, C1, …, C21
};

// "criteo" or "avazu".
ClickFormat click_format(std::string_view name);
std::string_view name_of(ClickFormat format);
// Detected from the separators in a log's first row: tabs in Criteo's, commas in Avazu's. UsageError if it
// has both or neither, UnsuitableTable if there are no rows.
ClickFormat detect_click_format(const std::filesystem::path& log);

struct ClickColumns {
  std::vector<std::string> dense_features;
  std::vector<std::string> categories;
};

// Criteo has I1 … I13 and C1 … C26. Avazu has no numeric features and 23 categories: all columns but id and
// click, with weekday (0 is Sunday) and hour_of_day in place of hour, whose values never recur.
const ClickColumns& columns_of(ClickFormat format);

struct ClickRow {
  std::int64_t line = 0;                                    // from 1
  bool clicked = false;                                     // set also for logs without labels
  std::vector<std::optional<std::int64_t>> dense_features;  // empty: missing
  std::vector<std::string_view> categories;                 // "": missing; valid until the next row is read
};

// Whether a log may lack its labels, for prediction: Criteo's then lacks the first field, Avazu's the column
// click.
enum class ClickLabels : std::uint8_t { required, optional };

// The rows of a log, plain or gzip-compressed, read as a stream: memory does not depend on the file.
// Malformed rows are skipped and counted: "too long", "NUL byte", "invalid UTF-8", "broken quotes", "wrong
// number of fields", "label is neither 0 nor 1", "not an integer", "not 8 hexadecimal digits", "hour is not
// YYMMDDHH". Blank lines are not rows.
class ClickLog {
 public:
  static constexpr std::int64_t longest_row = std::int64_t{1} << 16;  // bytes; rows have about 250

  // Error if the file cannot be read, lacks required labels, or has a header with a missing or duplicate
  // column.
  ClickLog(const std::filesystem::path& path, ClickFormat format, ClickLabels labels = ClickLabels::required,
           std::int64_t longest = longest_row);

  ClickLog(const ClickLog&) = delete;
  ClickLog& operator=(const ClickLog&) = delete;

  // False at the end. Error if the file is damaged (DamagedFile), or at the end if all rows were malformed
  // (UnsuitableTable).
  bool next(ClickRow& row);

  // Known from the header, or from the first well-formed row.
  bool labelled() const { return label_.has_value(); }
  // For describe_skipped().
  const TableCounts& counts() const { return counts_; }
  const std::filesystem::path& path() const { return lines_.path(); }

 private:
  bool read_line();  // into line_, split into fields_ if possible; false at the end
  const char* split();
  void read_first();
  void read_header();
  bool lacks_label() const;  // fields_, which are complete except for the label
  void drop_labels();
  const char* take(ClickRow& row);
  std::string nothing_left() const;
  const char* take_criteo(ClickRow& row);
  const char* take_avazu(ClickRow& row);

  ClickFormat format_;
  bool may_lack_label_;  // not determined yet
  LineReader lines_;
  std::string line_;
  std::vector<std::string_view> fields_;  // of line_
  const char* fault_ = nullptr;           // of line_
  bool pending_ = false;                  // line_ has been read but not delivered
  std::size_t width_ = 0;                 // fields of a row
  std::optional<std::size_t> label_;      // its index in a row
  std::vector<std::size_t> places_;       // indices of all other columns except Avazu's id
  std::size_t first_fields_ = 0;          // number of fields of the first row with a wrong number
  std::array<char, 1> weekday_{};
  TableCounts counts_;
};

// Called occasionally with the number of rows read.
using ClickProgress = std::function<void(std::int64_t rows)>;

// Several logs as one, in the given order.
class ClickLogs {
 public:
  ClickLogs(std::vector<std::filesystem::path> paths, ClickFormat format, ClickProgress progress = {});

  // As in ClickLog; each log must have a well-formed row.
  bool next(ClickRow& row);
  // For logs that were read completely: the number of skipped rows by reason, and one sentence for each log
  // with such rows.
  const std::map<std::string, std::int64_t>& left_out() const { return left_out_; }
  const std::vector<std::string>& skipped() const { return skipped_; }

 private:
  void close();  // closes log_, which was read to its end

  std::vector<std::filesystem::path> paths_;
  ClickFormat format_;
  ClickProgress progress_;
  std::unique_ptr<ClickLog> log_;
  std::size_t opened_ = 0;  // in paths_
  std::int64_t rows_ = 0;
  std::map<std::string, std::int64_t> left_out_;
  std::vector<std::string> skipped_;
};

}  // namespace comera::data
