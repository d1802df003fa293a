#include "data/clicks/click_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/data/tables/gzip.h"
#include "tests/support/temporary_folder.h"

namespace comera::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

struct Read {
  std::vector<std::string> rows;  // label | numbers | categories
  TableCounts counts;
};

std::string text_of(const ClickRow& row) {
  std::string text = row.clicked ? "1|" : "0|";
  for (const auto& number : row.dense_features) text += (number ? std::to_string(*number) : "-") + " ";
  text += "|";
  for (const auto& value : row.categories) text += (value.empty() ? "-" : std::string(value)) + " ";
  return text;
}

Read read_all(const std::filesystem::path& path, ClickFormat format,
              std::int64_t longest = ClickLog::longest_row) {
  ClickLog log(path, format, ClickLabels::required, longest);
  Read read;
  ClickRow row;
  while (log.next(row)) read.rows.push_back(text_of(row));
  read.counts = log.counts();
  return read;
}

std::string error_of(const std::filesystem::path& path, ClickFormat format) {
  return test::error_of([&] { read_all(path, format); });
}

// 13 integers and 26 values, of which number `which` (from 0) is replaced.
std::string criteo_row(const std::string& label = "1", int which = -1, const std::string& field = "") {
  std::string row = label;
  for (int i = 0; i < 39; ++i) {
    const std::string usual = i < 13 ? std::to_string(i) : fmt::format("{:08x}", 0xabc0000 + i);
    row += "\t" + (i == which ? field : usual);
  }
  return row + "\n";
}

constexpr const char* avazu_header =
    "id,click,hour,C1,banner_pos,site_id,site_domain,site_category,app_id,app_domain,app_category,device_id,"
    "device_ip,device_model,device_type,device_conn_type,C14,C15,C16,C17,C18,C19,C20,C21\n";

std::string avazu_row(const std::string& click = "1", const std::string& hour = "14102123",
                      const std::string& c1 = "1005") {
  return "10000169349117863715," + click + "," + hour + "," + c1 +
         ",0,1fbe01fe,f3845767,28905ebd,ecad2386,7801e8d9,07d7df22,a99f214a,96809ac8,711ee120,1,0,15704,320,"
         "50,1722,0,35,-1,79\n";
}

constexpr const char* avazu_text =
    "1||2 23 1005 0 1fbe01fe f3845767 28905ebd ecad2386 7801e8d9 07d7df22 a99f214a 96809ac8 711ee120 1 0 "
    "15704 "
    "320 50 1722 0 35 -1 79 ";

TEST(ClickLog, ReadsCriteo) {
  const test::TemporaryFolder folder;
  const std::string row =
      "0\t1\t\t-2\t0\t1382\t4\t15\t2\t181\t1\t2\t\t2\t68fd1e64\t80e26c9b\tfb936136\t7b4723c4\t25c83c98\t"
      "7e0ccccf\tde7995b8\t1f89b562\ta73ee510\ta8cd5504\tb2cb9c98\t37c9c164\t2824a5f6\t1adce6ef\t8ba8b39a\t"
      "891b62e7\te5ba7672\tf54016b9\t21ddcdc9\tb1252a9d\t07b5194c\t\t3a171ecb\tc5c50484\te8b83407\t\n";
  const char* text =
      "0|1 - -2 0 1382 4 15 2 181 1 2 - 2 |68fd1e64 80e26c9b fb936136 7b4723c4 25c83c98 7e0ccccf de7995b8 "
      "1f89b562 a73ee510 a8cd5504 b2cb9c98 37c9c164 2824a5f6 1adce6ef 8ba8b39a 891b62e7 e5ba7672 f54016b9 "
      "21ddcdc9 b1252a9d 07b5194c - 3a171ecb c5c50484 e8b83407 - ";
  // With and without a line end, with a blank line, and with those of Windows.
  const std::string windows = row.substr(0, row.size() - 1) + "\r\n";
  const std::string all = row + "\n" + windows + row.substr(0, row.size() - 1);
  for (const auto& path : {folder.write("a", all), folder.write("a.gz", gzip(all))}) {
    const Read read = read_all(path, ClickFormat::criteo);
    EXPECT_THAT(read.rows, ElementsAre(text, text, text)) << path;
    EXPECT_EQ(read.counts.rows, 3);
    EXPECT_EQ(describe_skipped(path, read.counts), "");
  }
}

TEST(ClickLog, RowsOfNothingButALabelAreWhole) {
  const test::TemporaryFolder folder;
  const Read read = read_all(folder.write("a", "1" + std::string(39, '\t')), ClickFormat::criteo);
  EXPECT_THAT(read.rows,
              ElementsAre("1|- - - - - - - - - - - - - |- - - - - - - - - - - - - - - - - - - - - - "
                          "- - - - "));
}

TEST(ClickLog, CountsFaultyRowsOfCriteoByKind) {
  const test::TemporaryFolder folder;
  const std::string whole = criteo_row();
  std::string text;
  for (const std::string& row :
       {criteo_row("2"), whole, criteo_row(""), criteo_row("0.5"),  // lines 1 to 4
        criteo_row("1", 3, "x"), criteo_row("1", 3, "1.5"), criteo_row("1", 0, "+1"),
        criteo_row("1", 12, "9223372036854775808"),  // to 8
        criteo_row("1", 13, "68fd1e6"), criteo_row("1", 38, "68fd1e644"), criteo_row("1", 20, "68fd1e6g"),
        criteo_row("1", 20, " 8fd1e64"),                                         // to 12
        std::string("1\t2\n"), criteo_row("1", 5, "1\t2"),                       // to 14
        criteo_row("1", 13, std::string(1, '\0')), criteo_row("1", 13, "\xff"),  // to 16
        criteo_row("1", 13, std::string(70000, 'a')), whole,                     // to 18
        criteo_row("0", 12, "-9223372036854775808")})
    text += row;
  const auto path = folder.write("a", text);
  const Read read = read_all(path, ClickFormat::criteo);
  EXPECT_EQ(read.rows.size(), 3u);
  EXPECT_EQ(read.counts.rows, 3);
  EXPECT_EQ(
      describe_skipped("a", read.counts),
      "a: 16 rows were left out: NUL byte: 1 (first in line 15), invalid UTF-8: 1 (first in line 16), label "
      "is neither 0 nor 1: 3 (first in line 1), not 8 hexadecimal digits: 4 (first in line 9), not an "
      "integer: 4 (first in line 5), too long: 1 (first in line 17), wrong number of fields: 2 (first in "
      "line 13); a file in another encoding must be converted first, such as with iconv -f LATIN1 -t UTF-8");
}

TEST(ClickLog, RefusesLogsWithoutLabels) {
  const test::TemporaryFolder folder;
  const std::string criteo = criteo_row().substr(2);
  EXPECT_THAT(error_of(folder.write("a", criteo + criteo), ClickFormat::criteo),
              AllOf(HasSubstr("39 fields"), HasSubstr("without its label")));
  // A row that lacks another field says nothing of the rest.
  const std::string cut = criteo_row().substr(0, criteo_row().rfind('\t')) + "\n";
  EXPECT_EQ(read_all(folder.write("b", cut + criteo_row()), ClickFormat::criteo).rows.size(), 1u);

  std::string header = avazu_header, row = avazu_row();
  header.erase(3, 6);
  row.erase(row.find(',') + 1, 2);
  EXPECT_THAT(error_of(folder.write("c", header + row), ClickFormat::avazu), HasSubstr("no column 'click'"));
  EXPECT_THAT(error_of(folder.write("d", row), ClickFormat::avazu),
              AllOf(HasSubstr("23 fields"), HasSubstr("without its label")));
}

TEST(ClickLog, TellsWhetherThereAreLabelsWhereTheyAreOptional) {
  const test::TemporaryFolder folder;
  const auto read = [&](const std::string& text, ClickFormat format) {
    ClickLog log(folder.write("log", text), format, ClickLabels::optional);
    ClickRow row;
    std::vector<std::string> rows;
    while (log.next(row)) rows.push_back(text_of(row));
    rows.push_back(fmt::format("{} labels, {} left out", log.labelled() ? "with" : "without",
                               log.counts().all_skipped()));
    return rows;
  };
  const std::string labelled = criteo_row(), bare = labelled.substr(2), x = "x\n";
  const std::string text = read(labelled, ClickFormat::criteo).front(), none = "0" + text.substr(1);
  const auto with = [](int left_out) { return fmt::format("with labels, {} left out", left_out); };
  const auto without = [](int left_out) { return fmt::format("without labels, {} left out", left_out); };
  EXPECT_THAT(read(labelled + labelled, ClickFormat::criteo), ElementsAre(text, text, with(0)));
  EXPECT_THAT(read(bare + bare, ClickFormat::criteo), ElementsAre(none, none, without(0)));
  EXPECT_THAT(read(x + bare + x + labelled + bare, ClickFormat::criteo), ElementsAre(none, none, without(3)));
  // Once a row was whole, one without a label is a faulty one; nor is what lacks another field.
  EXPECT_THAT(read(x + labelled + bare + labelled, ClickFormat::criteo), ElementsAre(text, text, with(2)));
  const std::string cut = labelled.substr(0, labelled.rfind('\t')) + "\n";
  EXPECT_THAT(read(cut + labelled, ClickFormat::criteo), ElementsAre(text, with(1)));
  // Fields that are no Criteo's without a label either.
  EXPECT_THAT(read(bare + criteo_row("1", 3, "x").substr(2) + "\t" + bare, ClickFormat::criteo),
              ElementsAre(none, without(2)));

  std::string header = avazu_header, row = avazu_row(), unclicked = avazu_text;
  header.erase(3, 6);
  row.erase(row.find(',') + 1, 2);
  unclicked[0] = '0';
  EXPECT_THAT(read(header + row + row, ClickFormat::avazu), ElementsAre(unclicked, unclicked, without(0)));
  EXPECT_THAT(read(row + row, ClickFormat::avazu), ElementsAre(unclicked, unclicked, without(0)));
  EXPECT_THAT(read(x + row, ClickFormat::avazu), ElementsAre(unclicked, without(1)));
  EXPECT_THAT(read(avazu_row(), ClickFormat::avazu), ElementsAre(avazu_text, with(0)));
  // A header has told it: such a row is no reason to forget.
  EXPECT_THAT(read(avazu_header + row + avazu_row(), ClickFormat::avazu), ElementsAre(avazu_text, with(1)));
}

TEST(ClickLog, ReadsAvazuWithAndWithoutItsHeader) {
  const test::TemporaryFolder folder;
  const std::string rows = avazu_row() + avazu_row("0");
  std::string other = avazu_text;
  other[0] = '0';
  for (const auto& path : {folder.write("a", avazu_header + rows), folder.write("b", rows),
                           folder.write("c", gzip("\xEF\xBB\xBF" + (avazu_header + rows)))}) {
    const Read read = read_all(path, ClickFormat::avazu);
    EXPECT_THAT(read.rows, ElementsAre(avazu_text, other)) << path;
    EXPECT_EQ(read.counts.all_skipped(), 0);
  }
  EXPECT_TRUE(columns_of(ClickFormat::avazu).dense_features.empty());
  const auto& names = columns_of(ClickFormat::avazu).categories;
  ASSERT_EQ(names.size(), 23u);
  EXPECT_EQ(names[0] + " " + names[1] + " " + names[2] + " " + names[22], "weekday hour_of_day C1 C21");
}

TEST(ClickLog, FindsAvazusColumnsByName) {
  const test::TemporaryFolder folder;
  const std::string turned =
      "C21,C20,C19,C18,C17,C16,C15,C14,device_conn_type,device_type,device_model,device_ip,"
      "device_id,app_category,app_domain,app_id,site_category,site_domain,site_id,"
      "banner_pos,C1,more,\"hour\",click\n79,-1,35,0,1722,50,320,15704,0,1,\"711ee120\","
      "96809ac8,a99f214a,07d7df22,7801e8d9,ecad2386,28905ebd,f3845767,1fbe01fe,0,1005,"
      "more,14102123,1\n";
  EXPECT_THAT(read_all(folder.write("a", turned), ClickFormat::avazu).rows, ElementsAre(avazu_text));
  std::string lacking = avazu_header, doubled = avazu_header;
  lacking.replace(lacking.find("app_id"), 6, "app_xx");
  doubled.replace(doubled.find("app_id"), 6, "site_id");
  doubled.replace(doubled.find("C21"), 3, "app_id");
  EXPECT_THAT(error_of(folder.write("b", lacking + avazu_row()), ClickFormat::avazu),
              HasSubstr("no column 'app_id'; it has id, click"));
  EXPECT_THAT(error_of(folder.write("c", doubled + avazu_row()), ClickFormat::avazu),
              HasSubstr("column 'site_id' twice"));
}

TEST(ClickLog, CountsFaultyRowsOfAvazuByKind) {
  const test::TemporaryFolder folder;
  std::string text = avazu_header;
  for (const std::string& row :
       {avazu_row("yes"), avazu_row("1", "1410210"), avazu_row("1", "14130100"), avazu_row("1", "14022900"),
        avazu_row("1", "14102124"), avazu_row("1", "1410212x"), avazu_row("1", "14102100", "1,2"),
        avazu_row("1", "14102100", "\"1,2"), avazu_row("1", "14102100", "\"1\"\"2\""), avazu_row()})
    text += row;
  const auto path = folder.write("a", text);
  const Read read = read_all(path, ClickFormat::avazu);
  EXPECT_THAT(read.rows, ElementsAre(avazu_text));
  EXPECT_EQ(
      describe_skipped("a", read.counts),
      "a: 9 rows were left out: broken quotes: 2 (first in line 9), hour is not YYMMDDHH: 5 (first in line "
      "3), label is neither 0 nor 1: 1 (first in line 2), wrong number of fields: 1 (first in line 8)");
}

TEST(ClickLog, AFaultyFirstRowIsNoReasonToRefuseTheRest) {
  const test::TemporaryFolder folder;
  EXPECT_EQ(read_all(folder.write("a", "\xff\n" + avazu_row()), ClickFormat::avazu).rows.size(), 1u);
  EXPECT_EQ(
      read_all(folder.write("b", std::string(300, 'x') + "\n1\t2\n" + criteo_row()), ClickFormat::criteo)
          .rows.size(),
      1u);
}

TEST(ClickLog, RefusesLogsWithoutAWholeRow) {
  const test::TemporaryFolder folder;
  EXPECT_THAT(error_of(folder.write("a", avazu_header + avazu_row()), ClickFormat::criteo),
              AllOf(HasSubstr("wrong number of fields: 2 (first in line 1)"), HasSubstr("format of criteo")));
  EXPECT_THAT(error_of(folder.write("b", criteo_row()), ClickFormat::avazu), HasSubstr("format of avazu"));
  EXPECT_THAT(error_of(folder.write("c", ""), ClickFormat::criteo), HasSubstr("holds no rows"));
  EXPECT_THAT(error_of(folder.write("d", avazu_header), ClickFormat::avazu), HasSubstr("holds no rows"));
  EXPECT_THAT(error_of(folder / "none", ClickFormat::avazu), HasSubstr("No such file"));
  const std::string packed = gzip(criteo_row() + criteo_row("0"));
  EXPECT_THAT(error_of(folder.write("e", packed.substr(0, packed.size() - 9)), ClickFormat::criteo),
              HasSubstr("damaged compressed data"));
}

TEST(ClickLogs, ReadsSeveralAsOne) {
  const test::TemporaryFolder folder;
  const auto a = folder.write("a", criteo_row("0") + "x\n"), b = folder.write("b.gz", gzip(criteo_row("1"))),
             c = folder.write("c", "y\n" + criteo_row("0") + criteo_row("2"));
  ClickLogs logs({a, b, c}, ClickFormat::criteo);
  ClickRow row;
  std::string labels;
  while (logs.next(row)) labels += row.clicked ? "1" : "0";
  EXPECT_EQ(labels, "010");
  EXPECT_FALSE(logs.next(row));
  EXPECT_THAT(logs.skipped(),
              ElementsAre(HasSubstr("1 row was left out"), HasSubstr("2 rows were left out")));
  EXPECT_THAT(logs.left_out(),
              ElementsAre(Pair("label is neither 0 nor 1", 1), Pair("wrong number of fields", 2)));
  EXPECT_THAT(test::error_of([] { ClickLogs({}, ClickFormat::criteo); }), HasSubstr("no log to read"));
}

TEST(ClickFormat, HasANameEach) {
  EXPECT_EQ(click_format("criteo"), ClickFormat::criteo);
  EXPECT_EQ(click_format("avazu"), ClickFormat::avazu);
  EXPECT_THAT(test::error_of([] { click_format("kaggle"); }), HasSubstr("name criteo or avazu"));
}

TEST(ClickFormat, IsToldByTheFirstRow) {
  const test::TemporaryFolder folder;
  const auto detect = [&](const std::string& text) { return detect_click_format(folder.write("log", text)); };
  EXPECT_EQ(detect("\n\n" + criteo_row("0")), ClickFormat::criteo);
  EXPECT_EQ(detect(gzip(criteo_row("0"))), ClickFormat::criteo);
  EXPECT_EQ(detect("id,click,hour\n"), ClickFormat::avazu);
  EXPECT_THAT(test::error_of([&] { detect("words\n"); }),
              HasSubstr("its first row has neither tabs nor commas"));
  EXPECT_THAT(test::error_of([&] { detect("a,b\tc\n"); }), HasSubstr("both tabs and commas"));
  EXPECT_THAT(test::error_of([&] { detect("\n"); }), HasSubstr("holds no rows"));
  EXPECT_THAT(test::error_of([&] { detect_click_format(folder / "none"); }), HasSubstr("No such file"));
}

}  // namespace
}  // namespace comera::data
