#include "data/tables/table_reader.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <thread>

#include "tests/data/tables/gzip.h"
#include "tests/support/temporary_folder.h"

namespace comera::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Read {
  std::vector<std::vector<std::string>> rows;
  std::vector<std::int64_t> lines;
  TableCounts counts;
};

Read read_all(const std::filesystem::path& path, TableOptions options) {
  TableReader reader(path, std::move(options));
  Read read;
  TableRow row;
  while (reader.next(row)) {
    std::vector<std::string> fields;
    for (const auto& field : row.fields) fields.push_back(field.value_or("<absent>"));
    read.rows.push_back(fields);
    read.lines.push_back(row.line);
  }
  read.counts = reader.counts();
  return read;
}

std::int64_t skipped(const Read& read, const std::string& reason) {
  const auto found = read.counts.skipped.find(reason);
  return found == read.counts.skipped.end() ? 0 : found->second.rows;
}

TEST(TableReader, FindsTsvColumnsByNameWhereverTheyStand) {
  const test::TemporaryFolder folder;
  const auto file = folder.write("a.tsv", "\xEF\xBB\xBFindex\tb\ta\r\n0\tx \"y\tz\r\n\r\n1\t\tw");
  const Read read = read_all(file, {.columns = {"a", "b"}, .optional = {"label", "index"}});
  EXPECT_THAT(read.rows,
              ElementsAre(ElementsAre("z", "x \"y", "<absent>", "0"), ElementsAre("w", "", "<absent>", "1")));
  EXPECT_THAT(read.lines, ElementsAre(2, 4));
  EXPECT_EQ(read.counts.rows, 2);
  EXPECT_TRUE(read.counts.skipped.empty());
}

TEST(TableReader, AColumnMayBeWantedTwice) {
  const test::TemporaryFolder folder;
  for (const auto& file :
       {folder.write("a.tsv", "x\ty\none text\tother\n"), folder.write("a.csv", "x,y\none text,other\n"),
        folder.write("a.jsonl", R"({"x": "one text", "y": "other"})")}) {
    const Read read = read_all(file, {.columns = {"x", "y", "x"}, .optional = {"y"}});
    EXPECT_THAT(read.rows, ElementsAre(ElementsAre("one text", "other", "one text", "other"))) << file;
  }
}

TEST(TableReader, WithoutHeaderColumnsAreNumbered) {
  const test::TemporaryFolder folder;
  const auto file = folder.write("cola.tsv", "gj04\t1\t\tfirst\ngj04\t0\t*\tsecond\n");
  const Read read = read_all(file, {.header = false, .columns = {"4", "2"}});
  EXPECT_THAT(read.rows, ElementsAre(ElementsAre("first", "1"), ElementsAre("second", "0")));
}

TEST(TableReader, CsvQuotesAndLinesWithinThem) {
  const test::TemporaryFolder folder;
  const auto file =
      folder.write("a.csv", "text,label\n\"one, \"\"two\"\"\n\nthree\",yes\nplain \"inner\" quote,no\n,\n");
  const Read read = read_all(file, {.columns = {"label", "text"}});
  EXPECT_THAT(read.rows, ElementsAre(ElementsAre("yes", "one, \"two\"\n\nthree"),
                                     ElementsAre("no", "plain \"inner\" quote"), ElementsAre("", "")));
  EXPECT_THAT(read.lines, ElementsAre(2, 5, 6));
}

TEST(TableReader, QuotedFieldsBetweenTabsAndSemicolons) {
  const test::TemporaryFolder folder;
  for (const auto& [format, separator] :
       {std::pair{TableFormat::quoted_tsv, '\t'}, {TableFormat::semicolon_csv, ';'}}) {
    std::string text = "a|b\n\"say \"\"x\"\", | and\nmore\"|1,5\nplain|2\n";
    std::ranges::replace(text, '|', separator);
    TableReader reader(folder.write("t.tsv", text), {.format = format, .columns = {"a", "b"}});
    TableRow row;
    ASSERT_TRUE(reader.next(row));
    EXPECT_EQ(row.fields[0], std::string("say \"x\", ") + separator + " and\nmore");
    EXPECT_EQ(row.fields[1], "1,5");
    ASSERT_TRUE(reader.next(row));
    EXPECT_EQ(row.line, 4);
    EXPECT_EQ(row.fields[0], "plain");
    EXPECT_FALSE(reader.next(row));
    EXPECT_EQ(note_on_quotes("t.tsv", reader.counts()), "");
  }
  EXPECT_THAT(test::error_of([&] {
                read_all(folder.write("q.tsv", "a\tb\n\"open\t1\nx\t2\n"),
                         {.format = TableFormat::quoted_tsv, .columns = {"a"}});
              }),
              HasSubstr("or is the file a TSV whose quotes are text (format tsv)?"));
  // What looks quoted in a TSV that is not is said.
  TableReader plain(folder.write("p.tsv", "a\tb\n\"say \"\"x\"\"\"\t1\n\"x\"\t2\n"), {.columns = {"a"}});
  TableRow row;
  ASSERT_TRUE(plain.next(row));
  EXPECT_EQ(row.fields[0], "\"say \"\"x\"\"\"");
  while (plain.next(row)) {
  }
  EXPECT_EQ(plain.counts().in_quotes, 1);
  EXPECT_THAT(note_on_quotes("p.tsv", plain.counts()), HasSubstr("p.tsv: 1 row has fields in quotes"));
}

// The next quoted field would end it, lines later.
TEST(TableReader, CsvQuoteThatWasNotClosedIsNamed) {
  const test::TemporaryFolder folder;
  const auto file = folder.write("a.csv", "text,label\n\"open,a\nx,b\n\"closed\",b\ny,a\n");
  const Read read = read_all(file, {.columns = {"text", "label"}});
  EXPECT_THAT(read.rows, ElementsAre(ElementsAre("y", "a")));
  EXPECT_THAT(describe_skipped(file, read.counts),
              HasSubstr("text behind a closing quote after several lines: 1 (first in line 2)"));
}

TEST(TableReader, CsvQuoteThatNeverEndsIsRefused) {
  const test::TemporaryFolder folder;
  const auto file = folder.write("a.csv", "text,label\n\"one,1\ntwo,2\n");
  EXPECT_THAT(test::error_of([&] { read_all(file, {.columns = {"text"}}); }),
              HasSubstr("a quoted field does not end after line 2"));
}

TEST(TableReader, JsonLinesNeedNotBeAlike) {
  const test::TemporaryFolder folder;
  const auto file = folder.write(
      "a.jsonl",
      "{\"code\": \"def f():\\n\\treturn \\u00e9\", \"tokens\": [\"def\", [1, {}]], \"label\": 1}\n"
      "\n"
      "{\"label\": 2.50, \"code\": true, \"other\": {\"code\": 3}}\n"
      "{\"code\": \"x\", \"label\": null}\n");
  const Read read = read_all(file, {.columns = {"code"}, .optional = {"label"}});
  EXPECT_THAT(read.rows, ElementsAre(ElementsAre("def f():\n\treturn \xC3\xA9", "1"),
                                     ElementsAre("true", "2.50"), ElementsAre("x", "<absent>")));
}

TEST(TableReader, BlankLinesOfTextAreCounted) {
  const test::TemporaryFolder folder;
  const auto file = folder.write("a.txt", "one\n\ntwo\n\n");
  const Read read = read_all(file, {.columns = {"text"}});
  EXPECT_THAT(read.rows, ElementsAre(ElementsAre("one"), ElementsAre("two")));
  EXPECT_EQ(read.counts.blank, 2);
  EXPECT_EQ(read.counts.first_blank, 2);
  EXPECT_EQ(read.counts.all_skipped(), 0);
}

// Lines of it would be read as texts where they happen to be well-formed.
TEST(TableReader, BinaryDataAreRefused) {
  const test::TemporaryFolder folder;
  std::string bytes = "PRETEND\n";
  std::uint32_t state = 1;
  for (int i = 0; i < 20000; ++i) bytes += static_cast<char>((state = state * 1664525u + 1013904223u) >> 24);
  const auto file = folder.write("a.bin", bytes);
  EXPECT_THAT(test::error_of([&] { read_all(file, {.columns = {"text"}}); }),
              HasSubstr("a.bin: is not text, but binary data"));
  // A header of a tar archive, whose zeros are few: name, sizes, "ustar".
  std::string archive = "notes.txt" + std::string(91, '\0') + "0000644" + std::string(150, '\0');
  archive += "ustar  " + std::string(248, '\0') + "good film\nbad film\n" + std::string(20000, 'x');
  const auto tar = folder.write("a.tar", archive);
  EXPECT_THAT(test::error_of([&] { read_all(tar, {.columns = {"text"}}); }),
              HasSubstr("a.tar: is a tar archive, which is not read; unpack it"));
  // Separators of lists within a field are text, and so is a character that the beginning cuts.
  std::string separated;
  while (separated.size() < (1 << 14) + 40)
    separated +=
        "a\x01"
        "b\x02"
        "c\xC3\xA4\n";
  EXPECT_GT(read_all(folder.write("a.txt", separated), {.columns = {"text"}}).rows.size(), 2000u);
  EXPECT_GT(read_all(folder.write("b.txt", "x" + separated), {.columns = {"text"}}).rows.size(), 2000u);
}

TEST(TableReader, MalformedRowsAreCountedByReason) {
  const test::TemporaryFolder folder;
  using namespace std::string_literals;
  const auto tsv = folder.write("a.tsv", "a\tb\n1\t2\n1\n1\t2\t3\nx\0y\t2\n\xC3\x28\t2\n3\t4\n"s);
  const Read rows = read_all(tsv, {.columns = {"a", "b"}});
  EXPECT_THAT(rows.rows, ElementsAre(ElementsAre("1", "2"), ElementsAre("3", "4")));
  EXPECT_EQ(skipped(rows, "wrong number of fields"), 2);
  EXPECT_EQ(skipped(rows, "NUL byte"), 1);
  EXPECT_EQ(skipped(rows, "invalid UTF-8"), 1);
  EXPECT_EQ(rows.counts.all_skipped(), 4);
  EXPECT_EQ(describe_skipped("a.tsv", rows.counts),
            "a.tsv: 4 rows were left out: NUL byte: 1 (first in line 5), invalid UTF-8: 1 (first in line 6), "
            "wrong number of fields: 2 (first in line 3); a file in another encoding must be converted "
            "first, such as "
            "with iconv -f LATIN1 -t UTF-8");

  const auto json =
      folder.write("b.jsonl",
                   "{\"a\": \"1\"}\n{\"a\": \"1\", \"a\": \"2\"}\n{\"b\": 1}\n[1]\n{\"a\": [1]}\n"
                   "{\"a\": \"x\\u0000\"}\n{\"a\": 1\n{\"a\": 1} 2\n5\n{\"a\": \"2\"}\n");
  const Read objects = read_all(json, {.columns = {"a"}});
  EXPECT_THAT(objects.rows, ElementsAre(ElementsAre("1"), ElementsAre("2")));
  EXPECT_EQ(skipped(objects, "doubled field"), 1);
  EXPECT_EQ(skipped(objects, "missing field"), 1);
  EXPECT_EQ(skipped(objects, "not a JSON object"), 4);
  EXPECT_EQ(skipped(objects, "field is not text"), 1);
  EXPECT_EQ(skipped(objects, "NUL byte"), 1);
}

TEST(TableReader, MissingAndDoubledColumnsAreRefusedByName) {
  const test::TemporaryFolder folder;
  const auto file = folder.write("a.tsv", "text\tlabel\ttext\nx\t1\ty\n");
  EXPECT_THAT(test::error_of([&] { read_all(file, {.columns = {"score"}}); }),
              HasSubstr("no column 'score'; it has text, label, text"));
  EXPECT_THAT(
      test::error_of([&] { TableReader(folder.write("s.csv", "id;label\n1;2\n"), {.columns = {"label"}}); }),
      AllOf(HasSubstr("it has id;label; it was read as CSV (fields between commas), as its name says"),
            HasSubstr("task.format")));
  EXPECT_THAT(test::error_of([&] { read_all(file, {.columns = {"text"}}); }),
              HasSubstr("2 columns are called 'text'; rename all but one"));
  EXPECT_THAT(read_all(file, {.columns = {"label"}}).rows, ElementsAre(ElementsAre("1")));
  EXPECT_THAT(test::error_of([&] { read_all(folder.write("b.tsv", ""), {.columns = {"a"}}); }),
              HasSubstr("the file is empty"));
  EXPECT_THAT(
      test::error_of(
          [&] { read_all(folder.write("c.jsonl", "{\"x\": 1, \"y\": 2}\n"), {.columns = {"a"}}); }),
      HasSubstr("missing field: 1 (first in line 1); nothing is left of it (wanted: a; the first object has: "
                "x, y)"));
}

TEST(TableReader, AHugeLineIsPassedWithoutBeingKept) {
  const test::TemporaryFolder folder;
  const auto file = folder / "huge.jsonl";
  {
    std::ofstream stream(file, std::ios::binary);
    stream << "{\"a\": \"first\"}\n{\"a\": \"";
    const std::string megabyte(1 << 20, 'x');
    for (int i = 0; i < 100; ++i) stream << megabyte;
    stream << "\"}\n{\"a\": \"last\"}\n";
  }
  const Read read = read_all(file, {.columns = {"a"}});
  EXPECT_THAT(read.rows, ElementsAre(ElementsAre("first"), ElementsAre("last")));
  EXPECT_THAT(read.lines, ElementsAre(1, 3));
  EXPECT_EQ(skipped(read, "too long"), 1);
}

TEST(TableReader, GzipIsReadAndDamageIsNamed) {
  const test::TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 50000; ++i) text += "{\"a\": \"" + std::to_string(i * 7919) + "\"}\n";
  const std::string packed = gzip(text);
  EXPECT_EQ(read_all(folder.write("a.jsonl.gz", packed), {.columns = {"a"}}).rows.size(), 50000u);
  EXPECT_EQ(format_of("x.csv.gz"), TableFormat::csv);
  EXPECT_EQ(format_of("x.JSON.GZ"), TableFormat::jsonl);
  EXPECT_EQ(format_of("x.Tsv.2"), TableFormat::tsv);
  EXPECT_EQ(format_of("x.jsonl.1.gz"), TableFormat::jsonl);
  EXPECT_EQ(format_of("x.TXT"), TableFormat::text);
  EXPECT_EQ(format_of("part-00000"), TableFormat::automatic);
  EXPECT_EQ(format_of("x.csv.bak"), TableFormat::automatic);

  EXPECT_THROW(
      read_all(folder.write("cut.jsonl.gz", packed.substr(0, packed.size() / 2)), {.columns = {"a"}}),
      DamagedFile);
  std::string wrong = packed;
  wrong[wrong.size() / 2] ^= 0x40;
  EXPECT_THROW(read_all(folder.write("wrong.jsonl.gz", wrong), {.columns = {"a"}}), DamagedFile);
  EXPECT_THAT(test::error_of([&] {
                read_all(folder.write("cut2.jsonl.gz", packed.substr(0, packed.size() - 4)),
                         {.columns = {"a"}});
              }),
              HasSubstr("damaged compressed data"));
}

TEST(TableReader, WhatCannotBeOpenedIsNamed) {
  const test::TemporaryFolder folder;
  EXPECT_THAT(test::error_of([&] { read_all(folder / "none.tsv", {}); }), HasSubstr("No such file"));
  EXPECT_THAT(test::error_of([&] { read_all(folder.path(), {}); }), HasSubstr("is a folder"));
  std::filesystem::create_symlink("loop.tsv", folder / "loop.tsv");
  EXPECT_THAT(test::error_of([&] { read_all(folder / "loop.tsv", {}); }), HasSubstr("symbolic links"));
  const auto locked = folder.write("locked.tsv", "a\n1\n");
  chmod(locked.c_str(), 0);
  if (geteuid() != 0) {
    EXPECT_THAT(test::error_of([&] { read_all(locked, {.columns = {"a"}}); }),
                HasSubstr("Permission denied"));
  }
}

TEST(TableReader, APipeIsReadAndADeviceIsNot) {
  const test::TemporaryFolder folder;
  const auto pipe = folder / "pipe.tsv";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  std::thread writer([&] { std::ofstream(pipe) << "a\tb\n1\t2\n"; });
  EXPECT_THAT(read_all(pipe, {.columns = {"b"}}).rows, ElementsAre(ElementsAre("2")));
  writer.join();
  EXPECT_THAT(test::error_of([&] { read_all("/dev/zero", {}); }), HasSubstr("/dev/zero: is a device"));
}

TEST(TableReader, TextLines) {
  const test::TemporaryFolder folder;
  const Read read = read_all(folder.write("a.txt", "one\n\ntwo \"x\",\t\n"), {.columns = {"text"}});
  EXPECT_THAT(read.rows, ElementsAre(ElementsAre("one"), ElementsAre("two \"x\",\t")));
}

std::vector<std::string> first_fields(const Read& read) {
  std::vector<std::string> found;
  for (const auto& row : read.rows) found.push_back(row[0]);
  return found;
}

TEST(TableReader, JsonIsReadAsPythonWritesIt) {
  const test::TemporaryFolder folder;
  const auto file = folder.write("a.jsonl",
                                 "\xEF\xBB\xBF{\"a\": \"one\", \"x\": NaN}\r\n"
                                 "{\"x\": [-Infinity, {\"y\": Infinity}], \"a\": \"two\"}\n"
                                 "{\"a\": \"three\", \"x\": \"\\ud83d\", \"\\udc00\": 1}\n"
                                 "{\"a\": \"\\ud83d\\ude00\", \"x\": 1000000000000000000000000000000}\n"
                                 "  {\"a\" : -1.5E+3 , \"x\":[[],{},[{\"a\":[]}]]}  \n"
                                 "{\"a\": \"half \\ud83d\"}\n"
                                 "{\"a\": [\"\\ude00\"]}\n"
                                 "{\"a\": null}\n"
                                 "{\"a\": NaN}\n"
                                 "{\"a\": \"last\"}");
  const Read read = read_all(file, {.columns = {"a"}});
  EXPECT_THAT(first_fields(read), ElementsAre("one", "two", "three", "\xF0\x9F\x98\x80", "-1.5E+3", "last"));
  EXPECT_EQ(skipped(read, "lone surrogate"), 2);
  EXPECT_EQ(skipped(read, "null field"), 2);
  EXPECT_EQ(read.counts.skipped.at("null field").bytes, 11 + 10);
}

TEST(TableReader, WhatPythonRefusesIsNoJson) {
  const test::TemporaryFolder folder;
  std::string lines = "{\"a\": \"good\"}\n";
  const std::vector<std::string> bad = {"{'a': 1}",
                                        "{\"a\": 01}",
                                        "{\"a\": 1.}",
                                        "{\"a\": .5}",
                                        "{\"a\": +1}",
                                        "{\"a\": nan}",
                                        "{\"a\": 1,}",
                                        "{\"a\" 1}",
                                        "{\"a\": \"\\x\"}",
                                        "{\"a\": \"\\u12\"}",
                                        "{\"a\": \"\t\"}",
                                        "{\"a\": True}",
                                        "{a: 1}",
                                        "{\"a\": 1}}",
                                        "{\"b\": [1, {\"c\": 2]}}",
                                        "{\"b\": [1,]}",
                                        "{\"b\": {\"c\"}}",
                                        "{\"a\": \"no end}"};
  for (const std::string& line : bad) lines += line + "\n";
  const Read read = read_all(folder.write("a.jsonl", lines), {.columns = {"a"}});
  EXPECT_THAT(first_fields(read), ElementsAre("good"));
  EXPECT_EQ(skipped(read, "not a JSON object"), static_cast<std::int64_t>(bad.size()));
}

TEST(TableReader, DeepJsonTakesNoStack) {
  const test::TemporaryFolder folder;
  const std::string deep(4 << 20, '[');
  const Read read = read_all(folder.write("a.jsonl", "{\"x\": " + deep + std::string(deep.size(), ']') +
                                                         ", \"a\": \"one\"}\n{\"x\": " + deep + "\n"),
                             {.columns = {"a"}});
  EXPECT_THAT(first_fields(read), ElementsAre("one"));
}

TEST(TableReader, ListsOfTextsAreJoined) {
  const test::TemporaryFolder folder;
  const Read read =
      read_all(folder.write("a.jsonl",
                            "{\"a\": [\"def\", \"f\\n\", \"(\"]}\n{\"a\": []}\n{\"a\": [\"x\", 1]}\n"
                            "{\"a\": [[\"x\"]]}\n{\"a\": {\"b\": 1}}\n"),
               {.columns = {"a"}});
  EXPECT_THAT(first_fields(read), ElementsAre("def f\n (", ""));
  EXPECT_EQ(skipped(read, "field is not text"), 3);
}

TEST(TableReader, OneListOfObjectsAndObjectsThatSpanLines) {
  const test::TemporaryFolder folder;
  const std::string one = "{\"a\": \"one ] } \\\" ,\", \"b\": [1, {\"c\": 2}]}", two = "{\"a\": \"two\"}";
  const std::string pretty = "{\n  \"a\": \"one ] } \\\" ,\",\n  \"b\": [\n    1\n  ]\n}",
                    second = "{\n  \"a\": \"two\"\n}";
  for (const std::string& content :
       {"[" + one + "," + two + "]", "\xEF\xBB\xBF [\r\n" + one + ",\r\n" + two + "\r\n]\r\n",
        "[\n" + pretty + ",\n" + second + "\n]\n", pretty + "\n" + second + "\n", one + "\n\n" + two}) {
    const Read read = read_all(folder.write("a.json", content), {.columns = {"a"}});
    EXPECT_THAT(first_fields(read), ElementsAre("one ] } \" ,", "two")) << content;
    EXPECT_TRUE(read.counts.skipped.empty()) << content;
    // Whatever the name, if it says nothing.
    EXPECT_EQ(read_all(folder.write("part-00000", content), {.columns = {"a"}}).rows.size(), 2u) << content;
  }
  const Read single = read_all(folder.write("b.json", second), {.columns = {"a"}});
  EXPECT_THAT(first_fields(single), ElementsAre("two"));
  const Read lines =
      read_all(folder.write("c.json", "[\n" + one + ",\n3, \"x\", [1], " + two + "\n]"), {.columns = {"a"}});
  EXPECT_THAT(lines.lines, ElementsAre(2, 3));
  EXPECT_EQ(skipped(lines, "not a JSON object"), 3);
}

TEST(TableReader, AListThatDoesNotEndIsCounted) {
  const test::TemporaryFolder folder;
  for (const char* end : {"", ",", ", {\"a\": 2", ", {\"a\": \"x"}) {
    const Read read = read_all(
        folder.write("a.json", "[{\"a\": \"one\"}, {\"a\": \"two\"}" + std::string(end)), {.columns = {"a"}});
    EXPECT_EQ(read.rows.size(), 2u);
    EXPECT_GE(skipped(read, "not a JSON object"), 1) << end;
  }
}

TEST(TableReader, AHugeElementOfAListIsPassedWithoutBeingKept) {
  const test::TemporaryFolder folder;
  const std::string list =
      "[{\"a\": \"one\"}, {\"a\": \"" + std::string(5000, 'x') + "\"}, {\"a\": \"two\"}]";
  const Read read = read_all(folder.write("a.json", list), {.columns = {"a"}, .longest_row = 1000});
  EXPECT_THAT(first_fields(read), ElementsAre("one", "two"));
  EXPECT_EQ(read.counts.skipped.at("too long").bytes, 5009);
}

TEST(TableReader, ContentDecidesWhereTheNameSaysNothing) {
  const test::TemporaryFolder folder;
  const auto format = [&](const char* name, const std::string& content) {
    return TableReader(folder.write(name, content), {.columns = {"text"}}).format();
  };
  const std::string objects = "{\"text\": \"one\"}\n{\"text\": \"two\"}\n";
  for (const char* name : {"a.JSONL", "part-00000", "train", "train.jsonl.1", "a.json.backup"})
    EXPECT_EQ(format(name, objects), TableFormat::jsonl) << name;
  EXPECT_EQ(format("cut", "ne\"}\n" + objects), TableFormat::jsonl);
  EXPECT_EQ(format("sample", "{\"text\": 1}\nis what\na line\nlooks like\n"), TableFormat::text);
  EXPECT_EQ(format("packed", gzip(objects)), TableFormat::jsonl);
  EXPECT_EQ(format("long", "{\"text\": \"" + std::string(40000, 'x') + "\"}\n"), TableFormat::jsonl);
  for (const char* text : {"plain text\n", "{}\n", "{a: b}\n", "{\"quoted\"}\n", "[1, 2]\n", "text\n"})
    EXPECT_EQ(format("notes", text), TableFormat::text) << text;
}

TEST(TableReader, ANameThatDoesNotFitTheContentIsRefused) {
  const test::TemporaryFolder folder;
  const auto refusal = [&](const char* name, const std::string& content) {
    return test::error_of([&] { read_all(folder.write(name, content), {.columns = {"text"}}); });
  };
  using namespace std::string_literals;
  EXPECT_THAT(refusal("a.txt", "{\"text\": \"one\"}\n"), HasSubstr("a.txt: holds JSON objects"));
  EXPECT_THAT(refusal("a.csv", "{\"text\": \"one\"}\n"), HasSubstr("a.csv: holds JSON objects"));
  EXPECT_THAT(
      refusal("a", "id\ttext\n1\tone\n"),
      AllOf(HasSubstr("its first line names the columns id, text"), HasSubstr("task.format = \"tsv\"")));
  EXPECT_THAT(refusal("a.txt", "text,label\r\none,1\r\n"), HasSubstr("task.format = \"csv\""));
  EXPECT_THAT(refusal("a.tsv", "\xff\xfet\0e\0x\0t\0\n\0"s),
              HasSubstr("is UTF-16; convert it to UTF-8: iconv"));
  EXPECT_THAT(refusal("a.tsv", "t\0e\0x\0t\0\n\0"s), HasSubstr("is UTF-16"));
  EXPECT_THAT(refusal("a", "PAR1\x15\x04\0"s), HasSubstr("Parquet file"));
  EXPECT_THAT(refusal("a.jsonl",
                      "\xFD"
                      "7zXZ\0\0\4"s),
              HasSubstr("is compressed with xz"));
  EXPECT_THAT(refusal("a.csv", "text,label\rone,1\rtwo,2\r"), HasSubstr("carriage returns alone"));
}

}  // namespace
}  // namespace comera::data
