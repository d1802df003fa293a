#include "data/tables/table_corpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "kernels/core/check.h"
#include "tests/data/tables/gzip.h"
#include "tests/support/temporary_folder.h"

namespace comera::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::UnorderedElementsAre;

std::vector<std::string> texts(DocumentSource& corpus) {
  std::vector<std::string> found;
  for (Document document; corpus.next(document);) {
    EXPECT_EQ(document.hash, storage::hash128(document.text));
    found.push_back(document.text);
  }
  return found;
}

std::map<std::string, std::int64_t> counts_of(const DocumentSource& corpus) {
  std::map<std::string, std::int64_t> counts;
  for (const auto& [reason, dropped] : corpus.counts().dropped) counts[reason] = dropped.count;
  return counts;
}

TableCorpusOptions options_for(std::vector<std::filesystem::path> inputs,
                               std::vector<std::vector<std::string>> documents) {
  TableCorpusOptions options;
  options.inputs = std::move(inputs);
  options.documents = std::move(documents);
  return options;
}

std::string function(int number, const char* language) {
  return "{\"repo\": \"a/b\", \"language\": \"" + std::string(language) +
         "\", \"code_tokens\": [\"def\", \"f\"], \"code\": \"def f" + std::to_string(number) +
         "():\\n\\treturn 1\", \"docstring\": \"Returns one: é.\"}\n";
}

TEST(TableCorpus, JoinsColumnsInTheGivenOrderAndCountsLanguages) {
  const test::TemporaryFolder folder;
  folder.write("go/b.jsonl.gz", gzip(function(2, "go") + function(3, "go")));
  folder.write("a.jsonl", function(1, "python"));
  folder.write("readme.md", "not a table");
  TableCorpus corpus(options_for({folder.path()}, {{"docstring", "code"}}));
  Document document;
  ASSERT_TRUE(corpus.next(document));
  EXPECT_EQ(document.text, "Returns one: é.\ndef f1():\n\treturn 1");
  EXPECT_EQ(document.language, "python");
  EXPECT_EQ(document.name, (folder / "a.jsonl").string() + ":1");
  EXPECT_EQ(texts(corpus).size(), 2u);
  EXPECT_EQ(corpus.counts().languages.at("go").documents, 2);
  EXPECT_EQ(corpus.counts().languages.at("python").bytes, static_cast<std::int64_t>(document.text.size()));
  EXPECT_THAT(counts_of(corpus), UnorderedElementsAre(Pair("other suffix", 1)));

  auto options = options_for({folder.path()}, {{"code"}});
  options.languages = {"python", "java"};
  TableCorpus of_python(options);
  EXPECT_THAT(texts(of_python), ElementsAre("def f1():\n\treturn 1"));
  EXPECT_EQ(of_python.counts().dropped.at("other language").count, 2);
}

TEST(TableCorpus, ListsOfColumnsMakeDocumentsOfTheirOwn) {
  const test::TemporaryFolder folder;
  const auto file = folder.write("train.tsv", "id\ta\tb\n0\tOne.\tTwo.\n1\tOne.\t\n2\t\tThree.\n");
  TableCorpus separate(options_for({file}, {{"b"}, {"a"}}));
  EXPECT_THAT(texts(separate), ElementsAre("Two.", "One.", "Three."));
  EXPECT_THAT(counts_of(separate), UnorderedElementsAre(Pair("empty", 2), Pair("duplicate", 1)));
  EXPECT_THAT(separate.counts().languages, IsEmpty());
  // An empty field leaves no line end behind.
  TableCorpus joined(options_for({file}, {{"a", "b"}}));
  EXPECT_THAT(texts(joined), ElementsAre("One.\nTwo.", "One.", "Three."));
  TableCorpus repeated(options_for({file}, {{"a", "b"}, {"a"}}));
  EXPECT_THAT(texts(repeated), ElementsAre("One.\nTwo.", "One.", "Three."));
}

TEST(TableCorpus, ReadsTablesWithoutHeaderCsvAndPlainText) {
  const test::TemporaryFolder folder;
  auto options = options_for({folder.write("cola.tsv", "gj04\t1\t\tA dog.\n")}, {{"4"}});
  options.header = false;
  TableCorpus numbered(options);
  EXPECT_THAT(texts(numbered), ElementsAre("A dog."));
  TableCorpus csv(options_for({folder.write("a.csv", "text,x\n\"a, b\n\nc\",1\n")}, {{"text"}}));
  EXPECT_THAT(texts(csv), ElementsAre("a, b\n\nc"));
  TableCorpus text(options_for({folder.write("a.txt", "first\n\nsecond")}, {{"text"}}));
  EXPECT_THAT(texts(text), ElementsAre("first", "second"));
}

TEST(TableCorpus, SizesAreThoseOfTheText) {
  const test::TemporaryFolder folder;
  auto options = options_for({folder.write("a.txt", "1\n22\n333\n4444\n")}, {{"text"}});
  options.min_bytes = 2;
  options.max_bytes = 3;
  TableCorpus corpus(options);
  EXPECT_THAT(texts(corpus), ElementsAre("22", "333"));
  EXPECT_THAT(counts_of(corpus), UnorderedElementsAre(Pair("too small", 1), Pair("too large", 1)));
}

TEST(TableCorpus, UnsuitableTablesAreRefusedWhenNamedAndCountedWhenFound) {
  const test::TemporaryFolder folder;
  const auto lacking = folder.write("b/lacking.tsv", "x\ty\n1\t2\n");
  const auto doubled = folder.write("b/doubled.tsv", "code\tcode\n1\t2\n");
  const auto objects = folder.write("b/objects.jsonl", "{\"x\": 1}\n{\"x\": 2}\n");
  const auto empty = folder.write("b/empty.csv", "");
  const auto open_quote = folder.write("b/open.csv", "code\n\"begins\nand never ends\n");
  folder.write("a.tsv", "code\nf()\n");
  const auto refused = [&](const std::filesystem::path& file) {
    return test::error_of([&] {
      TableCorpus corpus(options_for({folder / "a.tsv", file}, {{"code"}}));
      texts(corpus);
    });
  };
  EXPECT_THAT(refused(lacking), HasSubstr("lacking.tsv: no column 'code'; it has x, y"));
  EXPECT_THAT(refused(doubled), HasSubstr("doubled.tsv: 2 columns are called 'code'"));
  EXPECT_THAT(refused(objects), HasSubstr("objects.jsonl: 2 rows were left out: missing field: 2"));
  EXPECT_THAT(refused(empty), HasSubstr("empty.csv: no column 'code'; the file is empty"));
  EXPECT_THAT(refused(open_quote), HasSubstr("open.csv: a quoted field does not end after line 2"));

  TableCorpus corpus(options_for({folder.path()}, {{"code"}}));
  EXPECT_THAT(texts(corpus), ElementsAre("f()"));
  EXPECT_THAT(counts_of(corpus), UnorderedElementsAre(Pair("other columns", 4), Pair("malformed table", 1)));
  EXPECT_THAT(corpus.counts().notes,
              ElementsAre(HasSubstr("doubled.tsv: 2 columns are called 'code'"),
                          HasSubstr("empty.csv: no column"), HasSubstr("lacking.tsv: no column 'code'"),
                          HasSubstr("(wanted: code; the first object has: x)"),
                          HasSubstr("open.csv: a quoted field does not end")));
  EXPECT_EQ(corpus.counts().dropped.at("malformed table").bytes, 22);
  EXPECT_EQ(corpus.counts().dropped.at("other columns").bytes, 8 + 14 + 18);
}

TEST(TableCorpus, AFolderWithoutAWholeRowSaysWhy) {
  const test::TemporaryFolder folder;
  folder.write("a/lists.jsonl", "{\"code\": [1]}\n{\"code\": {}}\n");
  folder.write("a/mixed.jsonl", "{\"other\": 1}\nnot JSON\n");
  folder.write("a/wide.csv", std::string("\xff\xfe"
                                         "c\0o\0d\0e\0\n\0",
                                         12));
  TableCorpus corpus(options_for({folder / "a"}, {{"code"}}));
  EXPECT_THAT(texts(corpus), IsEmpty());
  EXPECT_THAT(counts_of(corpus),
              UnorderedElementsAre(Pair("field is not text", 2), Pair("missing field", 1),
                                   Pair("not a JSON object", 1), Pair("other columns", 1)));
  EXPECT_EQ(corpus.counts().dropped.at("field is not text").bytes, 13 + 12);
  EXPECT_THAT(
      nothing_was_kept(corpus.counts()),
      AllOf(HasSubstr("field is not text: 2 (25 bytes)"), HasSubstr("lists.jsonl: 2 rows were left out"),
            HasSubstr("wide.csv: is UTF-16; convert it to UTF-8: iconv -f UTF-16 -t UTF-8")));
}

TEST(TableCorpus, ListsOfWordsAreJoinedAndNullsAreEmpty) {
  const test::TemporaryFolder folder;
  const auto file = folder.write(
      "a.jsonl",
      "{\"docstring_tokens\": [\"Returns\", \"one\", \".\"], \"code_tokens\": [\"def\", \"f\"]}\n"
      "{\"docstring_tokens\": [], \"code_tokens\": [\"g\"]}\n"
      "{\"docstring_tokens\": null, \"code_tokens\": [\"h\", \"(\"]}\n"
      "{\"docstring_tokens\": NaN, \"code_tokens\": null}\n");
  TableCorpus corpus(options_for({file}, {{"docstring_tokens", "code_tokens"}}));
  EXPECT_THAT(texts(corpus), ElementsAre("Returns one .\ndef f", "g", "h ("));
  EXPECT_THAT(counts_of(corpus), UnorderedElementsAre(Pair("empty", 1)));
}

TEST(TableCorpus, PartsAndRotatedFilesOfAFolderAreRead) {
  const test::TemporaryFolder folder;
  folder.write("part-00000", "{\"text\": \"one\"}\n");
  folder.write("part-00001.JSON", "{\"text\": \"two\"}\n");
  folder.write("train.jsonl.1", "{\"text\": \"three\"}\n");
  folder.write("train.JSONL.GZ", gzip("{\"text\": \"four\"}\n"));
  folder.write("_SUCCESS", "");
  folder.write("partial", "{\"text\": \"five\"}\n");
  TableCorpus corpus(options_for({folder.path()}, {{"text"}}));
  EXPECT_THAT(texts(corpus), testing::UnorderedElementsAre("one", "two", "three", "four"));
  EXPECT_EQ(corpus.counts().dropped.at("other suffix").bytes, 17);
}

TEST(TableCorpus, TheFormatCanBeSaid) {
  const test::TemporaryFolder folder;
  auto options = options_for({folder.write("a.txt", "{\"text\": \"one\"}\n")}, {{"text"}});
  EXPECT_THAT(test::error_of([&] {
                TableCorpus corpus(options);
                texts(corpus);
              }),
              HasSubstr("holds JSON objects, although its name says otherwise; give --format jsonl to read "
                        "their members, or give --format text to read each line as text"));
  options.format = TableFormat::jsonl;
  TableCorpus objects(options);
  EXPECT_THAT(texts(objects), ElementsAre("one"));
  options.format = TableFormat::text;
  TableCorpus lines(options);
  EXPECT_THAT(texts(lines), ElementsAre("{\"text\": \"one\"}"));
}

TEST(TableCorpus, AFilterNeedsItsColumn) {
  const test::TemporaryFolder folder;
  auto options = options_for({folder.write("a.tsv", "code\tlang\nf()\tgo\ng()\tjava\n")}, {{"code"}});
  options.languages = {"go"};
  EXPECT_THAT(test::error_of([&] {
                TableCorpus corpus(options);
                texts(corpus);
              }),
              HasSubstr("no column 'language'"));
  options.language_column = "lang";
  TableCorpus corpus(options);
  EXPECT_THAT(texts(corpus), ElementsAre("f()"));
}

TEST(TableCorpus, ADamagedFileGivesWhatCouldBeReadAndTheRestGoesOn) {
  const test::TemporaryFolder folder;
  std::string rows;
  for (int i = 0; i < 20000; ++i)
    rows += function(static_cast<int>(storage::mix64(i) % 1000000000), "python");
  const std::string whole = gzip(rows);
  folder.write("a.jsonl.gz", whole.substr(0, whole.size() / 2));
  std::string flipped = gzip(rows + function(-1, "go"));
  for (std::size_t i = 0; i < 50; ++i) flipped[flipped.size() / 2 + i] ^= 0x5a;
  folder.write("b.jsonl.gz", flipped);
  folder.write("c.jsonl.gz", gzip(function(-2, "java")));
  folder.write("d.jsonl.gz", gzip(function(-3, "java")).substr(0, 15));
  TableCorpus corpus(options_for({folder.path()}, {{"code"}}));
  const auto found = texts(corpus);
  // The two halves hold the same rows, so the second one's are duplicates, save the few it got further.
  EXPECT_NEAR(static_cast<double>(found.size()), 10000, 2000);
  EXPECT_EQ(found.back(), "def f-2():\n\treturn 1");
  EXPECT_NEAR(static_cast<double>(corpus.counts().dropped.at("duplicate").count), 10000, 2000);
  EXPECT_EQ(corpus.counts().dropped.at("damaged file").count, 3);
  EXPECT_THAT(
      corpus.counts().notes,
      testing::IsSupersetOf(
          {testing::ContainsRegex(
               "/a.jsonl.gz: damaged compressed data after line .*: it ends too early; download or compress"),
           testing::ContainsRegex("/b.jsonl.gz: damaged compressed data after line [0-9]*: in"),
           testing::ContainsRegex("/d.jsonl.gz: damaged compressed data after line 0: it ends too early")}));
  // One that is named itself is refused.
  TableCorpus named(options_for({folder / "a.jsonl.gz", folder / "c.jsonl.gz"}, {{"code"}}));
  EXPECT_THAT(
      test::error_of([&] { texts(named); }),
      testing::ContainsRegex(
          "/a.jsonl.gz: damaged compressed data after line [0-9]+: it ends too early; download or compress"));
}

TEST(TableCorpus, MalformedRowsAreCountedAndTheirFilesNamed) {
  const test::TemporaryFolder folder;
  folder.write("a.jsonl",
               "{\"code\": \"one\"}\nnonsense\n{\"code\": \"t\\u0000wo\"}\n{\"code\": \"\xff\"}\n" +
                   std::string("{\"code\": \"a\", \"code\": \"b\"}\n{\"code\": [1]}\n{}\n") +
                   std::string("{\"code\": \"\0\"}\n{\"code\": \"last\"}", 30));
  TableCorpus corpus(options_for({folder.path()}, {{"code"}}));
  EXPECT_THAT(texts(corpus), ElementsAre("one", "last"));
  EXPECT_THAT(
      counts_of(corpus),
      UnorderedElementsAre(Pair("not a JSON object", 1), Pair("NUL byte", 2), Pair("invalid UTF-8", 1),
                           Pair("doubled field", 1), Pair("field is not text", 1), Pair("missing field", 1)));
  EXPECT_THAT(corpus.counts().notes, ElementsAre(HasSubstr("not a JSON object: 1 (first in line 2)")));
}

TEST(TableCorpus, ALineOfAHundredMegabytesIsPassedOver) {
  const test::TemporaryFolder folder;
  std::string text = "first\n" + std::string(100 << 20, 'x') + "\nlast\n";
  const auto file = folder.write("a.txt.gz", gzip(text));
  text = std::string();
  TableCorpus corpus(options_for({file}, {{"text"}}));
  EXPECT_THAT(texts(corpus), ElementsAre("first", "last"));
  EXPECT_EQ(corpus.counts().dropped.at("too long").count, 1);
}

TEST(TableCorpus, SurvivesLoopsOfLinksAndWhatItMayNotRead) {
  const test::TemporaryFolder folder;
  folder.write("a/one.txt", "one");
  folder.write("closed/two.txt", "two");
  const auto locked = folder.write("locked.txt", "three");
  std::filesystem::create_directory_symlink("..", folder / "a/up");
  std::filesystem::create_symlink("self.txt", folder / "self.txt");
  std::filesystem::permissions(folder / "closed", std::filesystem::perms::none);
  std::filesystem::permissions(locked, std::filesystem::perms::none);
  std::filesystem::permissions(folder.path(), static_cast<std::filesystem::perms>(0755));
  const bool root = geteuid() == 0;  // may read everything
  if (root && seteuid(65534) != 0) GTEST_SKIP() << "may not become another user";
  TableCorpus corpus(options_for({folder.path()}, {{"text"}}));
  const auto found = texts(corpus);
  const std::string refused = test::error_of([&] {
    TableCorpus named(options_for({locked}, {{"text"}}));
    texts(named);
  });
  if (root) {
    ASSERT_EQ(seteuid(0), 0);
  }
  std::filesystem::permissions(folder / "closed", std::filesystem::perms::owner_all);
  EXPECT_THAT(found, ElementsAre("one"));
  EXPECT_THAT(counts_of(corpus), UnorderedElementsAre(Pair("unreadable", 2), Pair("folder seen before", 1),
                                                      Pair("broken link", 1)));
  EXPECT_THAT(corpus.counts().notes, ElementsAre(HasSubstr("locked.txt: could not open: Permission denied")));
  EXPECT_THAT(refused, HasSubstr("locked.txt: could not open: Permission denied"));
}

TEST(TableCorpus, SaysWhatIsWrongWithItsOptions) {
  const test::TemporaryFolder folder;
  const auto refused = [](TableCorpusOptions options) {
    return test::error_of([&] { TableCorpus corpus(options); });
  };
  EXPECT_THAT(refused(options_for({folder.path()}, {})), HasSubstr("no column was given"));
  EXPECT_THAT(refused(options_for({folder.path()}, {{"a", ""}})), HasSubstr("needs a name"));
  EXPECT_THAT(refused(options_for({}, {{"a"}})), HasSubstr("no input was given"));
  EXPECT_THAT(refused(options_for({folder / "none"}, {{"a"}})), HasSubstr("no such file or folder"));
}

TEST(TableCorpus, NotesStayFew) {
  CorpusCounts counts;
  for (int i = 0; i < 100; ++i) counts.note("x");
  EXPECT_LE(counts.notes.size(), 20u);
  EXPECT_EQ(static_cast<std::int64_t>(counts.notes.size()) + counts.more_notes, 100);
  Document document;
  for (int i = 0; i < 1000; ++i) {
    document.language = std::to_string(i);
    counts.add(document);
  }
  EXPECT_LE(counts.languages.size(), 257u);
  EXPECT_EQ(counts.languages.at("(others)").documents, 744);
}

}  // namespace
}  // namespace comera::data
