// Faults of real files, through the command line.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cstdio>
#include <fstream>

#include "data/corpus/documents/text_documents.h"
#include "data/shards/shard.h"
#include "data/tokenizers/tokenizer.h"
#include "tests/cli/outcome.h"

namespace comera::cli {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

class CorpusFaults : public testing::Test {
 protected:
  CorpusFaults() {
    std::string name = (std::filesystem::temp_directory_path() / "comera-test-XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  ~CorpusFaults() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  std::string write(const std::string& name, const std::string& content) const {
    const auto path = folder_ / name;
    std::filesystem::create_directories(path.parent_path());
    if (name.ends_with(".gz")) {
      gzFile file = gzopen(path.c_str(), "wb");
      gzwrite(file, content.data(), static_cast<unsigned>(content.size()));
      gzclose(file);
    } else {
      std::ofstream(path, std::ios::binary) << content;
    }
    return path.string();
  }
  std::string at(const std::string& name) const { return (folder_ / name).string(); }

  // Rows that no other number has.
  static std::string rows(int first, int count) {
    std::string text;
    for (int i = first; i < first + count; ++i) {
      const std::string number = std::to_string(i * 7919 + 13);
      text += "{\"language\": \"python\", \"docstring\": \"Gives " + number + ".\", \"code\": \"def f" +
              number + "(x):\\n\\treturn x + " + number + "\"}\n";
    }
    return text;
  }

  // The tokenizer that `data` needs.
  std::string tokenizer() const {
    const std::string input = write("for_tokenizer/a.jsonl", rows(0, 200));
    std::string output = at("tokenizer.model");
    EXPECT_EQ(run({"tokenizer", "--input", input, "--text", "docstring,code", "--output", output,
                   "--vocabulary", "400"})
                  .code,
              0);
    return output;
  }
  // One line of the table that is printed: "  REASON      COUNT".
  static std::int64_t count_of(const Outcome& outcome, const std::string& reason) {
    const auto found = outcome.out.find("  " + reason + "  ");
    if (found == std::string::npos) return 0;
    std::string rest = outcome.out.substr(found + 2 + reason.size(), 40);
    std::erase(rest, ',');
    return std::stoll(rest);
  }
  static void expect_refusal(const Outcome& outcome, int code, const std::string& said) {
    EXPECT_EQ(outcome.code, code) << outcome.err;
    EXPECT_THAT(outcome.err, StartsWith("comera: error: "));
    EXPECT_THAT(outcome.err, HasSubstr(said));
    EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome.err;
  }

  std::filesystem::path folder_;
};

TEST_F(CorpusFaults, AFolderOfDamagedTablesGivesTheRestAndSaysWhatWasLost) {
  const std::string model = tokenizer();
  write("in/a.jsonl", rows(1000, 50));
  write("in/b/cut.jsonl.gz", rows(2000, 5000));
  std::filesystem::resize_file(at("in/b/cut.jsonl.gz"),
                               std::filesystem::file_size(at("in/b/cut.jsonl.gz")) / 2);
  write("in/c.tsv", "other\tcolumns\n1\t2\n");
  write("in/d.jsonl",
        rows(8000, 1) + "{\"code\": \"" + std::string(100 << 20, 'x') + "\"}\n" + rows(8001, 1));
  write("in/e.jsonl",
        rows(8100, 1) + std::string("{\"docstring\": \"\0\", \"code\": \"\"}\n", 31) + "garbage\n");
  write("in/f.tsv", "docstring\tcode\tcode\na\tb\tc\n");
  std::filesystem::create_directory_symlink("..", folder_ / "in/b/up");
  std::filesystem::create_symlink("self.jsonl", folder_ / "in/self.jsonl");

  const Outcome outcome = run({"data", "--input", at("in"), "--text", "docstring,code", "--tokenizer", model,
                               "--output", at("shards"), "--held-out", "0"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(count_of(outcome, "damaged file"), 1);
  EXPECT_EQ(count_of(outcome, "other columns"), 2);
  EXPECT_EQ(count_of(outcome, "too long"), 1);
  EXPECT_EQ(count_of(outcome, "NUL byte"), 1);
  EXPECT_EQ(count_of(outcome, "not a JSON object"), 1);
  EXPECT_EQ(count_of(outcome, "broken link"), 1);
  EXPECT_THAT(outcome.out, HasSubstr("folder seen before"));
  EXPECT_THAT(outcome.err, HasSubstr("cut.jsonl.gz: damaged compressed data after line"));
  EXPECT_THAT(outcome.err, HasSubstr("d.jsonl: 1 row was left out: too long: 1 (first in line 2)"));
  const data::ShardSet shards(at("shards"), "train");
  EXPECT_NEAR(static_cast<double>(shards.documents()), 53 + 2500, 700);
}

TEST_F(CorpusFaults, NamedTablesThatDoNotFitAreRefused) {
  const std::string model = tokenizer();
  const auto refusal = [&](const std::string& input, const std::string& columns) {
    return run({"data", "--input", input, "--text", columns, "--tokenizer", model, "--output", at("shards")});
  };
  const std::string table = write("a.tsv", "sentence1\tsentence2\na\tb\n");
  expect_refusal(refusal(table, "code"), 1, "a.tsv: no column 'code'; it has sentence1, sentence2");
  expect_refusal(refusal(write("b.tsv", "code\tcode\na\tb\n"), "code"), 1, "2 columns are called 'code'");
  expect_refusal(refusal(write("c.jsonl", "{\"x\": 1}\n"), "code"), 1, "missing field: 1");
  expect_refusal(refusal(write("d.csv", "code\n\"open\n"), "code"), 1, "a quoted field does not end");
  expect_refusal(refusal(at("none.tsv"), "code"), 2, "none.tsv: no such file or folder");
  expect_refusal(refusal(write("e.tsv.gz", ""), "code"), 1, "e.tsv.gz: no column 'code'; the file is empty");
  expect_refusal(refusal(write("e.jsonl.gz", ""), "code"), 1, "it has no files, or only empty ones");
  expect_refusal(refusal(table, "sentence1,"), 2, "a column of a table needs a name");
  expect_refusal(
      run({"data", "--input", table, "--no-header", "--tokenizer", model, "--output", at("shards")}), 2,
      "--text");
  EXPECT_FALSE(std::filesystem::exists(at("shards/train-00000.h5")));
}

TEST_F(CorpusFaults, ALockedFileIsSkippedByName) {
  const std::string model = tokenizer();
  write("in/a.jsonl", rows(1000, 50));
  const std::string locked = write("in/locked.jsonl", rows(2000, 50));
  std::filesystem::permissions(locked, std::filesystem::perms::none);
  std::filesystem::permissions(folder_, static_cast<std::filesystem::perms>(0777));
  const bool root = geteuid() == 0;  // may read everything
  if (root && seteuid(65534) != 0) GTEST_SKIP() << "may not become another user";
  const Outcome outcome = run({"data", "--input", at("in"), "--text", "code", "--tokenizer", model,
                               "--output", at("shards"), "--held-out", "0"});
  const Outcome named =
      run({"data", "--input", locked, "--text", "code", "--tokenizer", model, "--output", at("named")});
  if (root) {
    ASSERT_EQ(seteuid(0), 0);
  }
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(count_of(outcome, "unreadable"), 1);
  EXPECT_THAT(outcome.err, HasSubstr("locked.jsonl: could not open: Permission denied"));
  expect_refusal(named, 1, "locked.jsonl: could not open: Permission denied");
}

TEST_F(CorpusFaults, ShortSentencesStayAndEachColumnCanBeADocument) {
  std::string table = "id\tsentence1\tsentence2\n";
  for (int i = 0; i < 300; ++i)
    table += std::to_string(i) + "\tYes " + std::to_string(i) + "\tNo " + std::to_string(i) + ".\n";
  const std::string input = write("train.tsv", table);
  const auto train = [&](std::vector<std::string> columns) {
    std::vector<std::string> arguments = {"tokenizer",   "--input",     input,          "--output",
                                          at("a.model"), "--overwrite", "--vocabulary", "400"};
    arguments.insert(arguments.end(), columns.begin(), columns.end());
    return run(arguments);
  };
  const Outcome two = train({"--text", "sentence1", "--text", "sentence2"});
  EXPECT_EQ(two.code, 0) << two.err;
  EXPECT_THAT(two.out, testing::ContainsRegex("kept +600 "));
  EXPECT_THAT(train({"--text", "sentence1,sentence2"}).out, testing::ContainsRegex("kept +300 "));
  EXPECT_THAT(train({"--text", "sentence1", "--min-bytes", "6"}).out, testing::ContainsRegex("kept +290 "));
}

TEST_F(CorpusFaults, TooFewFunctionsAreToldFromTooFewHeldOut) {
  const auto functions = [&](int count) {
    std::string text;
    for (int i = 0; i < count; ++i)
      text += "def made_" + std::to_string(i) + "(value):\n    \"\"\"Adds the number " + std::to_string(i) +
              " to the value that it is given.\"\"\"\n    total = value + " + std::to_string(i) +
              "\n    return total * " + std::to_string(i + 7) + "\n\n";
    return write("few.py", text);
  };
  const auto message = [&](const std::string& file) {
    return run({"pairs", "--input", file, "--output", at("pairs"), "--held-out", "0.001"}).err;
  };
  EXPECT_THAT(message(functions(20)), HasSubstr("has 20 documented functions, but a task needs at least"));
  EXPECT_THAT(message(functions(60)), HasSubstr("60 documented functions with --held-out"));
}

TEST_F(CorpusFaults, FilesOfBytesThatAreNoTextAreCounted) {
  write("in/good.py", std::string(200, 'x') + " = 1\n" + rows(0, 20));
  write("in/nul.py", std::string(100, '\0'));
  write("in/huge.py", std::string(100 << 20, 'y'));
  write("in/latin.py", std::string(100, '\xe9'));
  const Outcome outcome = run({"tokenizer", "--input", at("in"), "--output", at("a.model"), "--vocabulary",
                               "400", "--max-file-bytes", "1048576"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(count_of(outcome, "binary"), 1);
  EXPECT_EQ(count_of(outcome, "too large"), 1);
  EXPECT_EQ(count_of(outcome, "invalid UTF-8"), 1);
}

// A text of one's own, however large: nothing of it is dropped, and a part of it is held out.
TEST_F(CorpusFaults, OneLargeTextIsAWholeCorpus) {
  const std::string model = tokenizer();
  std::string text;
  for (int i = 0; i < 30000; ++i)
    text += "Paragraph " + std::to_string(i * 7919) + " of a book.\nIt goes on.\n\n";
  ASSERT_GT(text.size(), 1u << 20);
  const std::string book = write("book.txt", text);
  for (const std::string& input : {book, write("packed/book.txt.gz", text), at("packed")}) {
    const Outcome outcome =
        run({"data", "--input", input, "--tokenizer", model, "--output", at("shards"), "--overwrite"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(count_of(outcome, "text"), static_cast<std::int64_t>(data::cut_text(text).size()));
    EXPECT_THAT(outcome.out, HasSubstr("dropped                              0                 0"));
    EXPECT_TRUE(std::filesystem::exists(at("shards/validation-00000.h5")));
  }
  const Outcome lines = run({"data", "--input", book, "--document", "line", "--tokenizer", model, "--output",
                             at("shards"), "--overwrite"});
  EXPECT_EQ(count_of(lines, "text"), 30001);
  EXPECT_EQ(count_of(lines, "duplicate"), 29999);
  expect_refusal(run({"data", "--input", book, "--document", "page", "--tokenizer", model, "--output",
                      at("shards"), "--overwrite"}),
                 2, "--document");
}

TEST_F(CorpusFaults, ACorpusThatIsMostlyTooLargeIsRefused) {
  const std::string model = tokenizer();
  write("code/small.py", "def f(x):\n    return x + 1  # a small function\n");
  write("code/large.py", std::string(2 << 20, 'x') + "\n");
  const auto data = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {"data", "--input",  at("code"),   "--tokenizer",
                                      model,  "--output", at("shards"), "--overwrite"};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  };
  expect_refusal(data({}), 2,
                 "more than half of the input would be left out as too large: 1 (2097153 bytes)");
  EXPECT_FALSE(std::filesystem::exists(at("shards")));
  EXPECT_EQ(data({"--max-bytes", "100000"}).code, 0) << "who sets the limit knows";
  EXPECT_EQ(count_of(data({"--max-bytes", "10000000"}), "python"), 2);
}

}  // namespace
}  // namespace comera::cli
