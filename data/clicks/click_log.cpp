#include "data/clicks/click_log.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <span>

#include "data/tokenizers/text/utf8.h"

namespace comera::data {

namespace {

constexpr std::size_t criteo_numbers = 13, criteo_categories = 26, category_digits = 8;
constexpr std::size_t criteo_label = 0, criteo_fields = 1 + criteo_numbers + criteo_categories;

constexpr std::array<std::string_view, 24> avazu_fields = {
    "id",         "click",        "hour",         "C1",
    "banner_pos", "site_id",      "site_domain",  "site_category",
    "app_id",     "app_domain",   "app_category", "device_id",
    "device_ip",  "device_model", "device_type",  "device_conn_type",
    "C14",        "C15",          "C16",          "C17",
    "C18",        "C19",          "C20",          "C21"};
constexpr std::size_t avazu_click = 1, avazu_hour = 2;

ClickColumns criteo_columns() {
  ClickColumns columns;
  for (std::size_t i = 1; i <= criteo_numbers; ++i) columns.dense_features.push_back(fmt::format("I{}", i));
  for (std::size_t i = 1; i <= criteo_categories; ++i) columns.categories.push_back(fmt::format("C{}", i));
  return columns;
}

ClickColumns avazu_columns() {
  ClickColumns columns;
  columns.categories = {"weekday", "hour_of_day"};
  columns.categories.insert(columns.categories.end(), avazu_fields.begin() + avazu_hour + 1,
                            avazu_fields.end());
  return columns;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_hexadecimal(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

// For Criteo.
bool is_category(std::string_view text) {
  return text.empty() || (text.size() == category_digits && std::ranges::all_of(text, is_hexadecimal));
}

int two_digits(std::string_view text) { return 10 * (text[0] - '0') + (text[1] - '0'); }

bool read_integer(std::string_view text, std::int64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

bool read_label(std::string_view text, bool& clicked) {
  clicked = text == "1";
  return clicked || text == "0";
}

// The weekday of YYMMDDHH; -1 if invalid.
int weekday_of(std::string_view hour) {
  if (hour.size() != 8 || !std::all_of(hour.begin(), hour.end(), is_digit)) return -1;
  const std::chrono::year_month_day date{
      std::chrono::year{2000 + two_digits(hour)},
      std::chrono::month{static_cast<unsigned>(two_digits(hour.substr(2)))},
      std::chrono::day{static_cast<unsigned>(two_digits(hour.substr(4)))}};
  if (!date.ok() || two_digits(hour.substr(6)) > 23) return -1;
  return static_cast<int>(std::chrono::weekday{std::chrono::sys_days{date}}.c_encoding());
}

// Splits at commas. A field that begins with a quote ends at the next quote, which must be its end: the
// values of a log contain neither quotes nor line ends. False if quotes are used otherwise.
bool split_commas(std::string_view line, std::vector<std::string_view>& fields) {
  for (std::size_t begin = 0;;) {
    std::size_t end = 0;
    if (begin < line.size() && line[begin] == '"') {
      const std::size_t quote = line.find('"', begin + 1);
      if (quote == std::string_view::npos) return false;
      fields.push_back(line.substr(begin + 1, quote - begin - 1));
      end = quote + 1;
      if (end < line.size() && line[end] != ',') return false;
    } else {
      end = std::min(line.find(',', begin), line.size());
      fields.push_back(line.substr(begin, end - begin));
    }
    if (end == line.size()) return true;
    begin = end + 1;
  }
}

void split_tabs(std::string_view line, std::vector<std::string_view>& fields) {
  for (std::size_t begin = 0;;) {
    const std::size_t end = std::min(line.find('\t', begin), line.size());
    fields.push_back(line.substr(begin, end - begin));
    if (end == line.size()) return;
    begin = end + 1;
  }
}

}  // namespace

ClickFormat click_format(std::string_view name) {
  for (const ClickFormat format : {ClickFormat::criteo, ClickFormat::avazu})
    if (name == name_of(format)) return format;
  throw UsageError(fmt::format("there is no click log format '{}'; name criteo or avazu", name));
}

std::string_view name_of(ClickFormat format) { return format == ClickFormat::criteo ? "criteo" : "avazu"; }

ClickFormat detect_click_format(const std::filesystem::path& log) {
  LineReader lines(log, ClickLog::longest_row);
  std::string line;
  while (line.empty())
    if (lines.next(line) == LineReader::Result::end)
      throw UnsuitableTable(fmt::format("{}: holds no rows", log.string()));
  const bool tabs = line.find('\t') != std::string::npos, commas = line.find(',') != std::string::npos;
  if (tabs == commas)
    throw UsageError(
        fmt::format("{}: its first row has {} tabs {} commas between its fields, so it fits neither Criteo "
                    "nor Avazu; give --format if it is one of them",
                    log.string(), tabs ? "both" : "neither", tabs ? "and" : "nor"));
  return tabs ? ClickFormat::criteo : ClickFormat::avazu;
}

const ClickColumns& columns_of(ClickFormat format) {
  static const ClickColumns criteo = criteo_columns(), avazu = avazu_columns();
  return format == ClickFormat::criteo ? criteo : avazu;
}

ClickLog::ClickLog(const std::filesystem::path& path, ClickFormat format, ClickLabels labels,
                   std::int64_t longest)
    : format_(format),
      may_lack_label_(labels == ClickLabels::optional),
      lines_(path, longest),
      width_(format == ClickFormat::criteo ? criteo_fields : avazu_fields.size()),
      label_(format == ClickFormat::criteo ? criteo_label : avazu_click) {
  for (std::size_t i = *label_ + 1; i < width_; ++i) places_.push_back(i);
  read_first();
}

const char* ClickLog::split() {
  if (line_.find('\0') != std::string::npos) return "NUL byte";
  if (!is_utf8(line_)) return "invalid UTF-8";
  if (format_ == ClickFormat::criteo)
    split_tabs(line_, fields_);
  else if (!split_commas(line_, fields_))
    return "broken quotes";
  return nullptr;
}

bool ClickLog::read_line() {
  LineReader::Result found = LineReader::Result::end;
  do found = lines_.next(line_);
  while (found == LineReader::Result::line && line_.empty());
  if (found == LineReader::Result::end) return false;
  fields_.clear();
  fault_ = found == LineReader::Result::too_long ? "too long" : split();
  return true;
}

// The first row shows whether there is a header, and whether there are labels.
void ClickLog::read_first() {
  if (!read_line()) return;
  pending_ = true;
  if (fault_ != nullptr) return;
  if (format_ == ClickFormat::avazu && std::ranges::find(fields_, "hour") != fields_.end()) {
    read_header();
    pending_ = false;
  } else if (lacks_label()) {
    COMERA_CHECK(may_lack_label_,
                 "{}: its first row has {} fields, a row of {} without its label, as in the test file of the "
                 "competition; name a file with labels",
                 path().string(), fields_.size(), name_of(format_));
    drop_labels();
  }
}

// A row that is well-formed except for the label, unlike one that lacks another field.
bool ClickLog::lacks_label() const {
  if (fields_.size() != width_ - 1) return false;
  return format_ == ClickFormat::criteo
             ? std::all_of(fields_.begin() + criteo_numbers, fields_.end(), is_category)
             : weekday_of(fields_[avazu_hour - 1]) >= 0;
}

void ClickLog::drop_labels() {
  may_lack_label_ = false;
  label_.reset();
  --width_;
  for (std::size_t& place : places_) --place;
}

void ClickLog::read_header() {
  width_ = fields_.size();
  places_.clear();
  for (std::size_t i = avazu_click; i < avazu_fields.size(); ++i) {
    const auto found = std::ranges::find(fields_, avazu_fields[i]);
    const auto place = static_cast<std::size_t>(found - fields_.begin());
    if (found == fields_.end() && i == avazu_click) {
      COMERA_CHECK(
          may_lack_label_,
          "{}: its header has no column 'click', as in the test file of the competition; name a file "
          "with labels",
          path().string());
      label_.reset();
      continue;
    }
    if (found == fields_.end())
      throw UnsuitableTable(fmt::format("{}: its header has no column '{}'; it has {}", path().string(),
                                        avazu_fields[i], fmt::join(fields_, ", ")));
    if (std::ranges::count(fields_, avazu_fields[i]) > 1)
      throw UnsuitableTable(fmt::format("{}: its header has column '{}' twice; rename one of them",
                                        path().string(), avazu_fields[i]));
    if (i == avazu_click)
      label_ = place;
    else
      places_.push_back(place);
  }
  may_lack_label_ = false;
}

const char* ClickLog::take_criteo(ClickRow& row) {
  row.dense_features.clear();
  for (const std::size_t place : std::span(places_).first(criteo_numbers)) {
    const std::string_view field = fields_[place];
    std::int64_t value = 0;
    if (!field.empty() && !read_integer(field, value)) return "not an integer";
    row.dense_features.push_back(field.empty() ? std::nullopt : std::optional(value));
  }
  row.categories.clear();
  for (const std::size_t place : std::span(places_).subspan(criteo_numbers))
    row.categories.push_back(fields_[place]);
  const bool all = std::ranges::all_of(row.categories, is_category);
  return all ? nullptr : "not 8 hexadecimal digits";
}

const char* ClickLog::take_avazu(ClickRow& row) {
  const std::string_view hour = fields_[places_[0]];
  const int weekday = weekday_of(hour);
  if (weekday < 0) return "hour is not YYMMDDHH";
  weekday_[0] = static_cast<char>('0' + weekday);
  row.dense_features.clear();
  row.categories = {std::string_view(weekday_.data(), 1), hour.substr(6)};
  for (const std::size_t place : std::span(places_).subspan(1)) row.categories.push_back(fields_[place]);
  return nullptr;
}

const char* ClickLog::take(ClickRow& row) {
  if (fault_ != nullptr) return fault_;
  // If rows came before it, all were malformed.
  if (may_lack_label_ && counts_.rows == 0 && lacks_label()) drop_labels();
  if (fields_.size() != width_) {
    if (first_fields_ == 0) first_fields_ = fields_.size();
    return "wrong number of fields";
  }
  row.clicked = false;
  if (label_ && !read_label(fields_[*label_], row.clicked)) return "label is neither 0 nor 1";
  return format_ == ClickFormat::criteo ? take_criteo(row) : take_avazu(row);
}

bool ClickLog::next(ClickRow& row) {
  while (pending_ || read_line()) {
    pending_ = false;
    row.line = lines_.number();
    const char* fault = take(row);
    if (fault == nullptr) {
      ++counts_.rows;
      return true;
    }
    counts_.skip(fault, row.line);
  }
  if (counts_.rows > 0) return false;
  if (counts_.skipped.empty()) throw UnsuitableTable(fmt::format("{}: holds no rows", path().string()));
  throw UnsuitableTable(nothing_left());
}

std::string ClickLog::nothing_left() const {
  const std::string fields =
      first_fields_ == 0 ? ""
                         : fmt::format(" (a row with {} {} where {} has {})", first_fields_,
                                       first_fields_ == 1 ? "field" : "fields", name_of(format_), width_);
  return fmt::format("{}; no row is left{}: is it a log in the format of {}, with {} between its fields?",
                     describe_skipped(path(), counts_), fields, name_of(format_),
                     format_ == ClickFormat::criteo ? "tabs" : "commas");
}

ClickLogs::ClickLogs(std::vector<std::filesystem::path> paths, ClickFormat format, ClickProgress progress)
    : paths_(std::move(paths)), format_(format), progress_(std::move(progress)) {
  COMERA_CHECK(!paths_.empty(), "there is no log to read; name at least one");
}

void ClickLogs::close() {
  for (const auto& [reason, entry] : log_->counts().skipped) left_out_[reason] += entry.rows;
  if (log_->counts().all_skipped() > 0) skipped_.push_back(describe_skipped(log_->path(), log_->counts()));
  log_.reset();
}

bool ClickLogs::next(ClickRow& row) {
  constexpr std::int64_t told_every = 4096;  // rows
  while (log_ != nullptr || opened_ < paths_.size()) {
    if (log_ == nullptr) log_ = std::make_unique<ClickLog>(paths_[opened_++], format_);
    if (log_->next(row)) {
      if (++rows_ % told_every == 0 && progress_) progress_(rows_);
      return true;
    }
    close();
  }
  return false;
}

}  // namespace comera::data
