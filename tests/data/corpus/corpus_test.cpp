#include "data/corpus/corpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "data/tokenizers/text/utf8.h"
#include "kernels/core/check.h"
#include "tests/support/temporary_folder.h"

namespace comera::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string long_enough(40, 'x');

std::vector<std::string> names(FileCorpus& corpus) {
  std::vector<std::string> found;
  for (Document document; corpus.next(document);)
    found.push_back(std::filesystem::path(document.name).filename().string());
  return found;
}

std::vector<std::string> described(const CorpusCounts& counts) {
  std::vector<std::string> found;
  for (const auto& [reason, dropped] : counts.dropped)
    found.push_back(reason + " " + count_and_bytes(dropped));
  return found;
}

TEST(Corpus, WalksInSortedOrderAndCountsByLanguage) {
  test::TemporaryFolder folder;
  folder.write("b/two.java", long_enough + "2");
  folder.write("b/a/one.py", long_enough + "1");
  folder.write("a.md", long_enough + "0");
  folder.write("b/picture.png", long_enough);
  folder.write(".git/hidden.py", long_enough + "h");
  folder.write("c.PY", long_enough + "3");
  FileCorpus corpus({.inputs = {folder.path()}, .languages = {}});
  EXPECT_THAT(names(corpus), ElementsAre("a.md", "one.py", "two.java", "c.PY"));
  EXPECT_EQ(corpus.counts().documents, 4);
  EXPECT_EQ(corpus.counts().languages.at("python").documents, 2);
  EXPECT_EQ(corpus.counts().languages.at("python").bytes, 82);
  EXPECT_EQ(corpus.counts().dropped.at("other suffix").count, 1);

  EXPECT_THAT(described(corpus.counts()), ElementsAre("hidden folder 1", "other suffix 1 (40 bytes)"));

  FileCorpus java({.inputs = {folder.path()}, .languages = {"java"}});
  EXPECT_THAT(names(java), ElementsAre("two.java"));
  EXPECT_EQ(java.counts().dropped.at("other language").count, 3);
}

TEST(Corpus, DropsWhatIsNotTextAndSaysWhy) {
  test::TemporaryFolder folder;
  folder.write("binary.py", long_enough + std::string(1, '\0'));
  folder.write("invalid.py", long_enough + "\xff\xfe");
  folder.write("good.py", long_enough);
  folder.write("good_again.py", long_enough);
  folder.write("small.py", "x");
  folder.write("empty.py", "");
  folder.write("large.py", std::string(2000, 'x'));
  ASSERT_EQ(mkfifo((folder / "pipe.py").c_str(), 0600), 0);
  FileCorpus corpus({.inputs = {folder.path()}, .languages = {}, .min_bytes = 2, .max_bytes = 1000});
  EXPECT_THAT(names(corpus), ElementsAre("good.py"));
  EXPECT_THAT(described(corpus.counts()),
              ElementsAre("binary 1 (41 bytes)", "duplicate 1 (40 bytes)", "invalid UTF-8 1 (42 bytes)",
                          "not a file 1 (0 bytes)", "too large 1 (2000 bytes)", "too small 2 (1 bytes)"));
}

TEST(Corpus, SaysWhyNothingWasKept) {
  test::TemporaryFolder folder;
  folder.write("wide.txt", std::string("\xff\xfeh\0e\0l\0l\0o\0", 12));
  folder.write("picture.png", long_enough);
  FileCorpus corpus({.inputs = {folder.path()}, .languages = {}, .min_bytes = 1});
  EXPECT_THAT(names(corpus), ElementsAre());
  EXPECT_THAT(nothing_was_kept(corpus.counts()),
              HasSubstr("kept: UTF-16: 1 (12 bytes), other suffix: 1 (40 bytes); give other folders"));
}

TEST(Corpus, ATableTakenAsTextIsSaid) {
  test::TemporaryFolder folder;
  const std::string rows = "{\"text\": \"a row of some length for the test\"}\n";
  for (const char* name : {"train.jsonl", "part-00000", "train.CSV"}) {
    FileCorpus corpus({.inputs = {folder.write(name, rows)}, .languages = {}});
    names(corpus);
    EXPECT_THAT(corpus.counts().notes, ElementsAre(HasSubstr("was read as text"))) << name;
  }
  FileCorpus text({.inputs = {folder.write("notes", long_enough)}, .languages = {}});
  names(text);
  EXPECT_THAT(text.counts().notes, ElementsAre());
}

TEST(Corpus, SurvivesLoopsOfLinks) {
  test::TemporaryFolder folder;
  folder.write("a/one.py", long_enough + "1");
  folder.write("b/two.py", long_enough + "2");
  std::filesystem::create_directory_symlink("..", folder / "a/up");
  std::filesystem::create_directory_symlink("../b", folder / "a/across");
  std::filesystem::create_symlink("self.py", folder / "self.py");
  std::filesystem::create_symlink("nowhere.py", folder / "broken.py");
  FileCorpus corpus({.inputs = {folder.path()}, .languages = {}});
  EXPECT_THAT(names(corpus), ElementsAre("two.py", "one.py"));
  EXPECT_EQ(corpus.counts().dropped.at("folder seen before").count, 2);
  EXPECT_EQ(corpus.counts().dropped.at("broken link").count, 2);
}

TEST(Corpus, SurvivesWhatItMayNotRead) {
  test::TemporaryFolder folder;
  folder.write("a/one.py", long_enough + "1");
  folder.write("closed/two.py", long_enough + "2");
  folder.write("locked.py", long_enough + "3");
  std::filesystem::permissions(folder / "closed", std::filesystem::perms::none);
  std::filesystem::permissions(folder / "locked.py", std::filesystem::perms::none);
  std::filesystem::permissions(folder.path(), static_cast<std::filesystem::perms>(0755));
  const bool root = geteuid() == 0;  // may read everything
  if (root && seteuid(65534) != 0) GTEST_SKIP() << "may not become another user";
  FileCorpus corpus({.inputs = {folder.path()}, .languages = {}});
  const auto found = names(corpus);
  if (root) {
    ASSERT_EQ(seteuid(0), 0);
  }
  EXPECT_THAT(found, ElementsAre("one.py"));
  EXPECT_EQ(corpus.counts().dropped.at("unreadable").count, 2);
  std::filesystem::permissions(folder / "closed", std::filesystem::perms::owner_all);
}

TEST(Corpus, SaysWhatIsWrongWithItsOptions) {
  test::TemporaryFolder folder;
  const auto make = [](CorpusOptions options) { return test::error_of([&] { FileCorpus corpus(options); }); };
  EXPECT_THAT(make({}), HasSubstr("no input"));
  EXPECT_THAT(make({.inputs = {folder / "none"}, .languages = {}}), HasSubstr("no such file or folder"));
  EXPECT_THAT(make({.inputs = {folder.path()}, .languages = {"klingon"}}),
              HasSubstr("unknown language 'klingon'"));
  FileCorpus empty({.inputs = {folder.path()}, .languages = {}});
  Document document;
  EXPECT_FALSE(empty.next(document));
}

TEST(Corpus, TheHeldOutPartDependsOnContentAlone) {
  int held_out = 0;
  for (int i = 0; i < 10000; ++i)
    held_out += is_held_out(storage::hash128("document " + std::to_string(i)), 0.1);
  EXPECT_NEAR(held_out, 1000, 150);
  EXPECT_FALSE(is_held_out(storage::hash128("x"), 0));
}

TEST(Utf8, KnowsWellFormedText) {
  for (const char* good :
       {"", "ascii and more ascii", "grüße", "漢字", "🙂", "\u0080", "\uffff", "\U0010ffff"})
    EXPECT_TRUE(is_utf8(good)) << good;
  for (const char* bad : {"\x80", "\xc3", "\xc0\xaf", "\xe0\x80\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80",
                          "\xff", "12345678\xe2\x82", "1234567\xf0\x80\x80\xaf"})
    EXPECT_FALSE(is_utf8(bad));
}

TEST(Hash, SeparatesSimilarTextsAndStaysTheSame) {
  std::set<storage::Hash128> seen;
  storage::HashSet set;
  std::string text;
  for (int i = 0; i < 3000; ++i) {
    EXPECT_TRUE(seen.insert(storage::hash128(text)).second);
    EXPECT_TRUE(set.insert(storage::hash128(text)));
    EXPECT_FALSE(set.insert(storage::hash128(text)));
    text += '\0';
  }
  for (int bit = 0; bit < 256; ++bit) {
    std::string flipped(32, 'a');
    flipped[bit / 8] ^= static_cast<char>(1 << (bit % 8));
    EXPECT_TRUE(seen.insert(storage::hash128(flipped)).second);
  }
  EXPECT_EQ(set.size(), 3000u);
  // Files depend on the value.
  EXPECT_EQ(storage::hash128("comera").hex(), "9708a52164f5f27f9db28dfae755163f");
}

}  // namespace
}  // namespace comera::data
