#include <arrow/api.h>
#include <arrow/io/api.h>
#include <arrow/ipc/api.h>
#include <fmt/format.h>
#include <parquet/arrow/reader.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>

#include "data/tables/columnar_rows.h"
#include "data/tables/line_reader.h"

namespace comera::data {

namespace {

constexpr std::int64_t rows_at_once = 1024;

void append_text(std::string& json, std::string_view text) {
  json += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\')
      (json += '\\') += c;
    else if (static_cast<unsigned char>(c) < 0x20)
      json += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    else
      json += c;  // bytes that are no UTF-8 are found by whoever reads the record
  }
  json += '"';
}

void append_number(std::string& json, double value, int digits) {
  if (std::isnan(value))
    json += "NaN";
  else if (std::isinf(value))
    json += value > 0 ? "Infinity" : "-Infinity";
  else
    json += fmt::format("{:.{}g}", value, digits);
}

void append_value(std::string& json, const arrow::Array& array, std::int64_t row);

void append_list(std::string& json, const arrow::Array& values, std::int64_t begin, std::int64_t end) {
  json += '[';
  for (std::int64_t i = begin; i < end; ++i) {
    if (i > begin) json += ", ";
    append_value(json, values, i);
  }
  json += ']';
}

template <class Lists>
void append_list_of(std::string& json, const arrow::Array& array, std::int64_t row) {
  const auto& lists = static_cast<const Lists&>(array);
  append_list(json, *lists.values(), lists.value_offset(row),
              lists.value_offset(row) + lists.value_length(row));
}

// Shortest digits that give a float back are 9, a double 17; fewer are tried first, so that 0.1 stays 0.1.
void append_real(std::string& json, double value, bool single) {
  const int most = single ? 9 : 17;
  for (int digits = single ? 6 : 15; digits < most; ++digits) {
    const std::string text = fmt::format("{:.{}g}", value, digits);
    const bool same = single ? std::strtof(text.c_str(), nullptr) == static_cast<float>(value)
                             : std::strtod(text.c_str(), nullptr) == value;
    if (same) return append_number(json, value, digits);
  }
  append_number(json, value, most);
}

void append_value(std::string& json, const arrow::Array& array, std::int64_t row) {
  using arrow::Type;
  if (array.IsNull(row)) {
    json += "null";
    return;
  }
  switch (array.type_id()) {
    case Type::STRING:
    case Type::BINARY:
      return append_text(json, static_cast<const arrow::BinaryArray&>(array).GetView(row));
    case Type::LARGE_STRING:
    case Type::LARGE_BINARY:
      return append_text(json, static_cast<const arrow::LargeBinaryArray&>(array).GetView(row));
    case Type::STRING_VIEW:
    case Type::BINARY_VIEW:
      return append_text(json, static_cast<const arrow::BinaryViewArray&>(array).GetView(row));
    case Type::BOOL:
      json += static_cast<const arrow::BooleanArray&>(array).Value(row) ? "true" : "false";
      return;
    case Type::FLOAT:
      return append_real(json, static_cast<const arrow::FloatArray&>(array).Value(row), true);
    case Type::DOUBLE:
      return append_real(json, static_cast<const arrow::DoubleArray&>(array).Value(row), false);
    case Type::LIST:
      return append_list_of<arrow::ListArray>(json, array, row);
    case Type::LARGE_LIST:
      return append_list_of<arrow::LargeListArray>(json, array, row);
    case Type::FIXED_SIZE_LIST:
      return append_list_of<arrow::FixedSizeListArray>(json, array, row);
    case Type::DICTIONARY: {
      const auto& encoded = static_cast<const arrow::DictionaryArray&>(array);
      return append_value(json, *encoded.dictionary(), encoded.GetValueIndex(row));
    }
    case Type::STRUCT:
    case Type::MAP:
      json += "{}";  // a table has no use for what is inside
      return;
    default:
      break;
  }
  const std::string text = array.GetScalar(row).ValueOrDie()->ToString();
  if (arrow::is_integer(array.type_id()))
    json += text;
  else
    append_text(json, text);
}

class ArrowRows final : public ColumnarRows {
 public:
  explicit ArrowRows(const std::filesystem::path& path) : path_(path) {
    std::string beginning(16, '\0');
    std::ifstream(path, std::ios::binary)
        .read(beginning.data(), static_cast<std::streamsize>(beginning.size()));
    auto file = value_of(arrow::io::ReadableFile::Open(path.string()));
    if (beginning.starts_with("PAR1")) {
      parquet::arrow::FileReaderBuilder builder;
      check(builder.Open(file));
      parquet::ArrowReaderProperties properties;
      properties.set_batch_size(rows_at_once);
      check(builder.properties(properties)->Build(&parquet_));
      check(parquet_->GetSchema(&schema_));
    } else if (beginning.starts_with("ARROW1")) {
      file_ = value_of(arrow::ipc::RecordBatchFileReader::Open(file));
      schema_ = file_->schema();
    } else {
      stream_ = value_of(arrow::ipc::RecordBatchStreamReader::Open(file));
      schema_ = stream_->schema();
    }
    columns_ = schema_->field_names();
    select(columns_);
  }

  const std::vector<std::string>& columns() const override { return columns_; }

  void select(const std::vector<std::string>& columns) override {
    const std::set<std::string> wanted(columns.begin(), columns.end());
    fields_.clear();
    for (std::size_t i = 0; i < columns_.size(); ++i)
      if (wanted.contains(columns_[i])) fields_.push_back(static_cast<int>(i));
  }

  bool next(std::string& object) override {
    while (!batch_ || row_ == batch_->num_rows())
      if (!read_batch()) return false;
    object.assign(1, '{');
    for (std::size_t i = 0; i < fields_.size(); ++i) {
      if (i > 0) object += ", ";
      append_text(object, columns_[static_cast<std::size_t>(fields_[i])]);
      object += ": ";
      if (places_[i] < 0)
        object += "null";  // of several columns with this name
      else
        append_value(object, *batch_->column(places_[i]), row_);
    }
    object += '}';
    ++row_;
    return true;
  }

 private:
  void check(const arrow::Status& status) const {
    if (!status.ok())
      throw DamagedFile(fmt::format("{}: could not be read: {}", path_.string(), status.message()));
  }
  template <class T>
  T value_of(arrow::Result<T> result) const {
    check(result.status());
    return std::move(result).ValueUnsafe();
  }

  // False at the end.
  bool read_batch() {
    row_ = 0;
    if (parquet_ && !parquet_batches_) {
      std::vector<int> groups(static_cast<std::size_t>(parquet_->num_row_groups()));
      for (std::size_t i = 0; i < groups.size(); ++i) groups[i] = static_cast<int>(i);
      parquet_batches_ = value_of(parquet_->GetRecordBatchReader(groups, leaves_of_fields()));
    }
    if (parquet_)
      check(parquet_batches_->ReadNext(&batch_));
    else if (stream_)
      check(stream_->ReadNext(&batch_));
    else
      batch_ = next_batch_ < file_->num_record_batches() ? value_of(file_->ReadRecordBatch(next_batch_++))
                                                         : nullptr;
    if (!batch_) return false;
    check(batch_->ValidateFull());  // offsets of damaged files lead anywhere
    places_.clear();
    for (const int field : fields_)
      places_.push_back(batch_->schema()->GetFieldIndex(columns_[static_cast<std::size_t>(field)]));
    return true;
  }

  // Parquet counts the leaves of nested columns.
  std::vector<int> leaves_of_fields() const {
    const auto& schema = *parquet_->parquet_reader()->metadata()->schema();
    std::vector<int> leaves;
    for (int leaf = 0; leaf < schema.num_columns(); ++leaf) {
      const std::string root = schema.GetColumnRoot(leaf)->name();
      if (std::ranges::any_of(fields_,
                              [&](int field) { return columns_[static_cast<std::size_t>(field)] == root; }))
        leaves.push_back(leaf);
    }
    return leaves;
  }

  std::filesystem::path path_;
  std::unique_ptr<parquet::arrow::FileReader> parquet_;
  std::shared_ptr<arrow::RecordBatchReader> parquet_batches_;
  std::shared_ptr<arrow::ipc::RecordBatchFileReader> file_;
  std::shared_ptr<arrow::ipc::RecordBatchStreamReader> stream_;
  std::shared_ptr<arrow::Schema> schema_;
  std::vector<std::string> columns_;
  std::vector<int> fields_, places_;  // of the selected columns: in the schema, in a batch
  std::shared_ptr<arrow::RecordBatch> batch_;
  std::int64_t row_ = 0;
  int next_batch_ = 0;
};

}  // namespace

bool reads_columnar_files() { return true; }

std::unique_ptr<ColumnarRows> open_columnar(const std::filesystem::path& path) {
  return std::make_unique<ArrowRows>(path);
}

}  // namespace comera::data
