#include "data/tables/columnar_rows.h"

#include <gmock/gmock.h>

#include "data/corpus/corpus.h"
#include "data/tables/table_corpus.h"
#include "data/tables/table_reader.h"
#include "tests/support/temporary_folder.h"

#ifdef COMERA_ARROW
#include <arrow/api.h>
#include <arrow/io/api.h>
#include <arrow/ipc/api.h>
#include <parquet/arrow/writer.h>
#endif

namespace comera::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(ColumnarRows, FormatsAreFoundByContent) {
  using namespace std::string_view_literals;
  EXPECT_STREQ(columnar_format_of("PAR1\x15"), "Parquet");
  EXPECT_STREQ(columnar_format_of("ARROW1\0\0"sv), "Arrow");
  EXPECT_STREQ(columnar_format_of("\xFF\xFF\xFF\xFF\x78\x01\0\0\x10"sv), "Arrow");
  EXPECT_EQ(columnar_format_of("text"), nullptr);
  EXPECT_TRUE(is_columnar_name("a/b.Parquet"));
  EXPECT_FALSE(is_columnar_name("parquet"));
  EXPECT_TRUE(is_table_name("a.arrow"));
}

TEST(ColumnarRows, ANameThatSaysSoIsNotBelieved) {
  const test::TemporaryFolder folder;
  const auto path = folder.write("a.parquet", "text\tlabel\none\t1\n");
  EXPECT_THAT(test::error_of([&] { TableReader(path, {}); }), HasSubstr("is no Parquet or Arrow file"));
}

#ifdef COMERA_ARROW

template <class Builder, class Value>
std::shared_ptr<arrow::Array> array_of(const std::vector<std::optional<Value>>& values) {
  Builder builder;
  for (const auto& value : values) EXPECT_TRUE((value ? builder.Append(*value) : builder.AppendNull()).ok());
  return builder.Finish().ValueOrDie();
}

std::shared_ptr<arrow::Array> lists() {
  arrow::ListBuilder builder(arrow::default_memory_pool(), std::make_shared<arrow::StringBuilder>());
  auto& words = static_cast<arrow::StringBuilder&>(*builder.value_builder());
  for (const std::vector<std::string>& list : {std::vector<std::string>{"a", "b"}, {}, {"c \"d\""}}) {
    EXPECT_TRUE(builder.Append().ok());
    EXPECT_TRUE(words.AppendValues(list).ok());
  }
  return builder.Finish().ValueOrDie();
}

std::shared_ptr<arrow::Table> example() {
  const auto text =
      array_of<arrow::StringBuilder, std::string>({"one\n\"1\"", std::nullopt, "tr\xC3\xA9s \x01"});
  const auto label = array_of<arrow::Int64Builder, std::int64_t>({1, 0, -7});
  const auto score = array_of<arrow::DoubleBuilder, double>({0.1, std::nan(""), 1e300});
  const auto truth = array_of<arrow::BooleanBuilder, bool>({true, std::nullopt, false});
  return arrow::Table::Make(
      arrow::schema({arrow::field("label", arrow::int64()), arrow::field("words", arrow::list(arrow::utf8())),
                     arrow::field("text", arrow::utf8()), arrow::field("score", arrow::float64()),
                     arrow::field("truth", arrow::boolean())}),
      {label, lists(), text, score, truth});
}

enum class Kind { parquet, file, stream };

void write(const std::filesystem::path& path, const arrow::Table& table, Kind kind) {
  auto out = arrow::io::FileOutputStream::Open(path.string()).ValueOrDie();
  if (kind == Kind::parquet) {
    ASSERT_TRUE(parquet::arrow::WriteTable(table, arrow::default_memory_pool(), out, 2).ok());
  } else {
    auto writer = (kind == Kind::file ? arrow::ipc::MakeFileWriter(out, table.schema())
                                      : arrow::ipc::MakeStreamWriter(out, table.schema()))
                      .ValueOrDie();
    ASSERT_TRUE(writer->WriteTable(table).ok());
    ASSERT_TRUE(writer->Close().ok());
  }
  ASSERT_TRUE(out->Close().ok());
}

// Lists with nothing in a place, dates, decimals, times, texts by number, and two columns of one name.
std::shared_ptr<arrow::Table> unusual() {
  arrow::ListBuilder lists(arrow::default_memory_pool(), std::make_shared<arrow::StringBuilder>());
  auto& words = static_cast<arrow::StringBuilder&>(*lists.value_builder());
  EXPECT_TRUE(lists.Append().ok() && words.Append("a").ok() && words.AppendNull().ok());
  EXPECT_TRUE(lists.AppendNull().ok());
  arrow::StringDictionaryBuilder encoded;
  EXPECT_TRUE(encoded.Append("new").ok() && encoded.Append("old").ok());
  arrow::Decimal128Builder decimals(arrow::decimal128(6, 2));
  EXPECT_TRUE(decimals.Append(arrow::Decimal128(1250)).ok() && decimals.AppendNull().ok());
  arrow::TimestampBuilder times(arrow::timestamp(arrow::TimeUnit::SECOND), arrow::default_memory_pool());
  EXPECT_TRUE(times.AppendValues(std::vector<std::int64_t>{0, 86399}).ok());
  const auto texts = array_of<arrow::StringBuilder, std::string>({"one", "two"});
  const auto field = [](const char* name, const std::shared_ptr<arrow::DataType>& type) {
    return arrow::field(name, type);
  };
  return arrow::Table::Make(
      arrow::schema({field("text", arrow::utf8()), field("twice", arrow::utf8()),
                     field("twice", arrow::utf8()), field("words", arrow::list(arrow::utf8())),
                     field("state", encoded.type()), field("price", decimals.type()),
                     field("day", arrow::date32()), field("time", times.type())}),
      {texts, texts, texts, lists.Finish().ValueOrDie(), encoded.Finish().ValueOrDie(),
       decimals.Finish().ValueOrDie(), array_of<arrow::Date32Builder, std::int32_t>({0, 20000}),
       times.Finish().ValueOrDie()});
}

class ColumnarFiles : public testing::TestWithParam<Kind> {
 protected:
  std::filesystem::path written(const char* name = "a.parquet") const {
    std::filesystem::create_directories((folder_ / name).parent_path());
    write(folder_ / name, *example(), GetParam());
    return folder_ / name;
  }
  test::TemporaryFolder folder_;
};

TEST_P(ColumnarFiles, RowsAreThoseOfJsonLines) {
  TableReader table(written(),
                    {.columns = {"text", "label", "words"}, .optional = {"score", "truth"}, .nulls = true});
  EXPECT_THAT(table.columns(), ElementsAre("label", "words", "text", "score", "truth"));
  std::vector<std::vector<std::string>> rows;
  std::vector<std::vector<FieldKind>> kinds;
  for (TableRow row; table.next(row);) {
    auto& fields = rows.emplace_back();
    for (const auto& field : row.fields) fields.push_back(field.value_or("-"));
    kinds.push_back(row.kinds);
    EXPECT_EQ(row.line, static_cast<std::int64_t>(rows.size()));
  }
  EXPECT_THAT(rows, ElementsAre(ElementsAre("one\n\"1\"", "1", "a b", "0.1", "true"),
                                ElementsAre("-", "0", "", "-", "-"),
                                ElementsAre("tr\xC3\xA9s \x01", "-7", "c \"d\"", "1e+300", "false")));
  EXPECT_THAT(kinds[0], ElementsAre(FieldKind::text, FieldKind::number, FieldKind::words, FieldKind::number,
                                    FieldKind::truth));
}

TEST_P(ColumnarFiles, UnusualTypesAreTextsListsAndNothing) {
  write(folder_ / "u.arrow", *unusual(), GetParam());
  TableReader table(
      folder_ / "u.arrow",
      {.columns = {"text"}, .optional = {"words", "state", "price", "day", "time"}, .any_optional = true});
  std::vector<std::vector<std::string>> rows;
  for (TableRow row; table.next(row);) {
    auto& fields = rows.emplace_back();
    for (const auto& field : row.fields) fields.push_back(field.value_or("-"));
  }
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0][0], "one");
  EXPECT_EQ(rows[0][1], "-") << "a list with nothing in a place is no list of texts";
  EXPECT_THAT(std::vector(rows[0].begin() + 2, rows[0].end()),
              ElementsAre("new", "12.50", "1970-01-01", testing::StartsWith("1970-01-01 00:00:00")));
  EXPECT_THAT(rows[1],
              ElementsAre("two", "-", "old", "-", "2024-10-04", testing::StartsWith("1970-01-01 23:59:59")));
  // Which of two columns is meant cannot be told.
  EXPECT_THAT(test::error_of([&] {
                TableReader doubled(folder_ / "u.arrow", {.columns = {"twice"}});
                for (TableRow row; doubled.next(row);) {
                }
              }),
              HasSubstr("u.arrow"));
}

TEST_P(ColumnarFiles, AreCorpora) {
  written("in/b.parquet");
  TableCorpus corpus({.inputs = {folder_ / "in"}, .documents = {{"text"}}});
  std::vector<std::string> texts;
  for (Document document; corpus.next(document);) texts.push_back(document.text);
  EXPECT_THAT(texts, ElementsAre("one\n\"1\"", "tr\xC3\xA9s \x01"));
  EXPECT_THAT(test::error_of([&] {
                FileCorpus({.inputs = {folder_ / "in/b.parquet"}}).next(*std::make_unique<Document>());
              }),
              HasSubstr("give --text COLUMN"));
}

TEST_P(ColumnarFiles, FaultsAreSaid) {
  const auto path = written();
  EXPECT_THAT(test::error_of([&] { TableReader(path, {.columns = {"texts"}}); }),
              HasSubstr("no column 'texts'; it has label, words, text, score, truth"));
  std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
  EXPECT_THAT(test::error_of([&] {
                TableReader table(path, {.columns = {"text"}, .nulls = true});
                for (TableRow row; table.next(row);) {
                }
              }),
              HasSubstr("could not be read"));
}

INSTANTIATE_TEST_SUITE_P(Kinds, ColumnarFiles, testing::Values(Kind::parquet, Kind::file, Kind::stream));

#else

TEST(ColumnarRows, WithoutTheLibraryTheyAreRefused) {
  const test::TemporaryFolder folder;
  const auto path = folder.write("a.parquet", "PAR1" + std::string(30, '\0'));
  EXPECT_THAT(test::error_of([&] { TableReader(path, {}); }),
              HasSubstr("is a Parquet file; this program was built without the library"));
}

#endif

}  // namespace
}  // namespace comera::data
