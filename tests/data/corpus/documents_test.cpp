#include <gmock/gmock.h>

#include "data/corpus/corpus.h"
#include "data/corpus/documents/held_out.h"
#include "data/corpus/documents/text_documents.h"
#include "tests/data/tables/gzip.h"
#include "tests/support/temporary_folder.h"

namespace comera::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string paragraphs(int count, int seed = 0) {
  std::string text;
  for (int i = 0; i < count; ++i)
    text += "Paragraph " + std::to_string(i + 1000 * seed) + " begins.\nIt has é and a second line.\n\n";
  return text;
}

std::vector<Document> all_of(DocumentSource& source) {
  std::vector<Document> documents;
  for (Document document; source.next(document);) documents.push_back(document);
  return documents;
}

std::vector<std::string> texts_of(const std::filesystem::path& path, DocumentUnit unit) {
  std::vector<std::string> texts;
  TextDocuments documents(path, unit, 1 << 20);
  for (std::string text; documents.next(text);) texts.push_back(text);
  return texts;
}

std::string joined(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) all += text;
  return all;
}

TEST(TextDocuments, AutomaticOnesAreParagraphsThatTogetherAreTheText) {
  const test::TemporaryFolder folder;
  const std::string text = paragraphs(5000);
  for (const std::string& content : {text, gzip(text)}) {
    const auto texts = texts_of(folder.write("long.txt", content), DocumentUnit::automatic);
    EXPECT_EQ(joined(texts), text);
    EXPECT_GT(texts.size(), text.size() / longest_document);
    EXPECT_LT(texts.size(), 2 * text.size() / longest_document);
    for (const std::string& part : texts) {
      EXPECT_LE(part.size(), longest_document);
      EXPECT_TRUE(part.starts_with("Paragraph"));
      EXPECT_TRUE(part.ends_with("line.\n\n"));
    }
  }
  EXPECT_EQ(texts_of(folder.write("short.txt", "a\n\nb\n"), DocumentUnit::automatic),
            std::vector<std::string>{"a\n\nb\n"});
  EXPECT_EQ(cut_text(text), texts_of(folder.write("long.txt", text), DocumentUnit::automatic));
}

TEST(TextDocuments, WithoutPlacesToCutTheyEndBetweenCharacters) {
  std::string text;
  for (int i = 0; i < 20000; ++i) text += i % 3 == 0 ? "é" : "語";
  for (const char* between : {"", " ", "\n"}) {
    std::string with = text;
    for (std::size_t at = 5; at < with.size(); at += 5000)
      if (*between != 0 && (with[at] & 0xC0) != 0x80) with.insert(at, between);
    const auto parts = cut_text(with);
    EXPECT_EQ(joined(parts), with);
    for (const std::string& part : parts) EXPECT_NE(part[0] & 0xC0, 0x80);
  }
}

TEST(TextDocuments, ParagraphsAndLines) {
  const test::TemporaryFolder folder;
  const auto path = folder.write("a.txt", "\xEF\xBB\xBF\n\none\r\ntwo\r\n\r\n \n\nthree\n   \nfour");
  EXPECT_THAT(texts_of(path, DocumentUnit::paragraph), ElementsAre("one\r\ntwo", "three", "four"));
  EXPECT_THAT(texts_of(path, DocumentUnit::line), ElementsAre("one", "two", "three", "four"));
  EXPECT_THAT(texts_of(path, DocumentUnit::file), ElementsAre("\n\none\r\ntwo\r\n\r\n \n\nthree\n   \nfour"));
  const auto lines = texts_of(folder.write("b.txt", std::string(40000, 'x') + "\ny"), DocumentUnit::line);
  EXPECT_EQ(lines.size(), 4u);  // 16 KiB, 16 KiB, the rest; and y
  EXPECT_EQ(lines.back(), "y");
}

TEST(FileCorpus, ProseIsNeverTooLarge) {
  const test::TemporaryFolder folder;
  const std::string text = paragraphs(40000);  // 2 MB
  ASSERT_GT(static_cast<std::int64_t>(text.size()), usual_max_bytes);
  for (const char* name : {"book.txt", "book.txt.gz", "notes.md"}) {
    const bool packed = std::string(name).ends_with(".gz");
    const auto path = folder.write(std::string("in/") + name, packed ? gzip(text) : text);
    FileCorpus corpus({.inputs = {folder / "in"}});
    std::string all;
    for (const Document& document : all_of(corpus)) all += document.text;
    EXPECT_EQ(all, text) << name;
    EXPECT_TRUE(corpus.counts().dropped.empty());
    std::filesystem::remove(path);
  }
}

TEST(FileCorpus, TheLimitIsForCodeInFolders) {
  const test::TemporaryFolder folder;
  std::string code;
  for (int i = 0; i < 60000; ++i)
    code += "value_" + std::to_string(i) + " = " + std::to_string(std::int64_t{i} * i) + "\n\n";
  const auto path = folder.write("in/large.py", code);
  ASSERT_GT(static_cast<std::int64_t>(code.size()), usual_max_bytes);
  FileCorpus found({.inputs = {folder / "in"}});
  EXPECT_TRUE(all_of(found).empty());
  EXPECT_EQ(found.counts().dropped.at("too large").count, 1);
  FileCorpus named({.inputs = {path}});
  EXPECT_GT(all_of(named).size(), 1u);
  EXPECT_EQ(named.counts().bytes, static_cast<std::int64_t>(code.size()));
  EXPECT_EQ(named.counts().languages.at("python").bytes, static_cast<std::int64_t>(code.size()));
  FileCorpus limited({.inputs = {path}, .max_bytes = 1 << 20});
  EXPECT_TRUE(all_of(limited).empty());
}

TEST(FileCorpus, WhatIsNoTextIsRefusedByNameAndDroppedAsAWhole) {
  const test::TemporaryFolder folder;
  const std::string text = paragraphs(1000);
  const struct {
    std::string content;
    const char* reason;
    const char* refusal;
  } cases[] = {{text + "\xe9t\xe9", "invalid UTF-8", "is not UTF-8; convert it"},
               {text + std::string(1, '\0'), "binary", "is not text"},
               {"PAR1\x15\x04" + std::string(40, '\0'), "binary", "is a Parquet file"},
               {gzip(text).substr(0, gzip(text).size() / 2), "damaged file",
                "damaged compressed data: it ends too early"}};
  for (const auto& [content, reason, refusal] : cases) {
    const auto path = folder.write("in/a.txt", content);
    FileCorpus found({.inputs = {folder / "in"}});
    EXPECT_TRUE(all_of(found).empty());
    EXPECT_EQ(found.counts().dropped.at(reason).count, 1);
    EXPECT_THAT(test::error_of([&] {
                  FileCorpus named({.inputs = {path}});
                  all_of(named);
                }),
                HasSubstr(refusal));
  }
}

TEST(FileCorpus, AUsualLimitDoesNotDropMostOfACorpus) {
  const test::TemporaryFolder folder;
  folder.write("in/small.py", std::string(900, 'y'));
  folder.write("in/large.py", std::string(usual_max_bytes + 1, 'x'));
  CorpusOptions options{.inputs = {folder / "in"}};
  const auto refusal = [&] { return test::error_of([&] { refuse_mostly_dropped(options, "--limit"); }); };
  EXPECT_THAT(refusal(), HasSubstr("too large: 1 (1048577 bytes), such as "));
  EXPECT_THAT(refusal(), HasSubstr("large.py; give --limit another limit than 1048576 bytes"));
  options.languages = {"java"};
  EXPECT_EQ(refusal(), "") << "nothing of it is chosen";
  options.languages = {};
  options.max_bytes = usual_max_bytes;
  EXPECT_EQ(refusal(), "") << "who sets the limit knows";
  options.max_bytes.reset();
  folder.write("in/book.txt", std::string(usual_max_bytes, 'z'));
  EXPECT_EQ(refusal(), "");
}

class Listed final : public DocumentSource {
 public:
  explicit Listed(std::vector<std::string> texts, std::optional<bool> held_out = {})
      : texts_(std::move(texts)), held_out_(held_out) {}
  bool next(Document& document) override {
    if (next_ == texts_.size()) return false;
    document.text = texts_[next_++];
    document.hash = storage::hash128(document.text);
    if (held_out_) document.held_out = held_out_;
    return true;
  }
  CorpusCounts counts() const override { return {}; }

 private:
  std::vector<std::string> texts_;
  std::optional<bool> held_out_;
  std::size_t next_ = 0;
};

struct Parts {
  std::string all, held_out;
  std::int64_t documents = 0, held_out_documents = 0;
};

Parts parts_of(std::vector<std::string> texts, double fraction, std::optional<bool> decided = {}) {
  Listed source(std::move(texts), decided);
  WithHeldOut divided(source, fraction);
  Parts parts;
  for (const Document& document : all_of(divided)) {
    parts.all += document.text;
    ++parts.documents;
    if (!*document.held_out) continue;
    parts.held_out += document.text;
    ++parts.held_out_documents;
  }
  return parts;
}

TEST(WithHeldOut, AlwaysHoldsSomethingOut) {
  // Of many documents as their content says, in their order.
  std::vector<std::string> many;
  for (int i = 0; i < 2000; ++i) many.push_back(paragraphs(1, i));
  const Parts of_many = parts_of(many, 0.02);
  EXPECT_EQ(of_many.all, joined(many));
  std::int64_t expected = 0;
  for (const std::string& text : many) expected += is_held_out(storage::hash128(text), 0.02) ? 1 : 0;
  EXPECT_EQ(of_many.held_out_documents, expected);
  // Of few, none of which would be.
  const std::vector<std::string> few(many.begin(), many.begin() + 20);
  for (const std::string& text : few) ASSERT_FALSE(is_held_out(storage::hash128(text), 1e-4));
  const Parts of_few = parts_of(few, 1e-4);
  EXPECT_EQ(of_few.all, joined(few));
  EXPECT_EQ(of_few.held_out_documents, 1);
  // The end of one.
  const Parts of_one = parts_of({paragraphs(50)}, 0.02);
  EXPECT_EQ(of_one.all, paragraphs(50));
  EXPECT_EQ(of_one.documents, 2);
  EXPECT_NEAR(static_cast<double>(of_one.held_out.size()) / static_cast<double>(of_one.all.size()), 0.1,
              0.03);
  EXPECT_TRUE(of_one.all.ends_with(of_one.held_out));
  EXPECT_EQ(parts_of({"several words of one line without an end"}, 0.02).held_out, "end");
}

TEST(WithHeldOut, OfTextWithoutSpacesATenthIsHeldOut) {
  std::string text = "Title\n";
  for (int i = 0; i < 4000; ++i) text += "語";
  const Parts parts = parts_of({text}, 0.02);
  EXPECT_EQ(parts.all, text);
  EXPECT_NEAR(static_cast<double>(parts.held_out.size()), 0.1 * static_cast<double>(text.size()), 4);
  EXPECT_NE(parts.held_out[0] & 0xC0, 0x80) << "it begins with a character";
}

TEST(WithHeldOut, OfAFullWindowOneIsHeldOut) {
  std::vector<std::string> large;
  for (char c = 'a'; c <= 't'; ++c) large.push_back(std::string(std::size_t{1} << 20, c));
  const Parts parts = parts_of(large, 1e-9);
  EXPECT_EQ(parts.all.size(), joined(large).size());
  EXPECT_EQ(parts.held_out_documents, 1);
}

TEST(WithHeldOut, LeavesTheRestAlone) {
  EXPECT_EQ(parts_of({paragraphs(50)}, 0).held_out, "");
  EXPECT_EQ(parts_of({"word"}, 0.99).held_out, "");
  EXPECT_EQ(parts_of({paragraphs(50), paragraphs(50, 1)}, 0.02, false).held_out, "");
  EXPECT_EQ(parts_of({paragraphs(50)}, 0.02, true).held_out, paragraphs(50));
}

}  // namespace
}  // namespace comera::data
