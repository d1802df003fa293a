// A path that was named and does not exist is a wrong command line or recipe in every command: exit code 2,
// one sentence that names the path, and nothing is written.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include <filesystem>

#include "tests/cli/outcome.h"
#include "tests/support/temporary_folder.h"

namespace comera::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

// GONE stands for a path that does not exist, TEXT and VOCABULARY for files, OUT for an output.
std::vector<std::vector<std::string>> commands() {
  return {
      {"data", "--input", "GONE", "--tokenizer", "VOCABULARY", "--output", "OUT"},
      {"data", "--input", "TEXT", "--tokenizer", "GONE", "--output", "OUT"},
      {"data", "--input", "GONE", "--text", "code", "--tokenizer", "VOCABULARY", "--output", "OUT"},
      {"tokenizer", "--input", "GONE", "--output", "OUT"},
      {"pairs", "--input", "GONE", "--output", "OUT"},
      {"plan", "--hours", "1", "--tokenizer", "VOCABULARY", "--data", "GONE"},
      {"pretrain", "GONE", "--output", "OUT"},
      {"pretrain", "quickstart", "--input", "GONE", "--output", "OUT"},
      {"pretrain", "quickstart", "--tokenizer", "VOCABULARY", "--data", "GONE", "--output", "OUT"},
      {"finetune", "GONE", "--output", "OUT"},
      {"finetune", "six_encoder_mnli", "--from", "GONE", "--output", "OUT"},
      {"resume", "GONE"},
      {"eval", "GONE"},
      {"predict", "GONE", "--input", "TEXT", "--output", "OUT.tsv"},
      {"embed", "GONE", "--input", "TEXT", "--output", "OUT.h5"},
      {"fill-mask", "GONE", "a [MASK]"},
      {"export", "GONE", "--to", "OUT"},
      {"import", "GONE", "--output", "OUT.h5"},
      {"inspect", "GONE"},
      {"inspect", "GONE", "--ranks"},
      {"inspect", "GONE", "GONE"},
      {"report", "GONE", "--output", "OUT.html"},
      {"compact", "GONE", "--output", "OUT.h5"},
      {"compact", "--from-dense", "GONE", "--output", "OUT.h5"},
      {"glue", "--from", "GONE", "--data", "GONE", "--output", "OUT"},
      {"clicks", "data", "GONE", "--output", "OUT"},
      {"clicks", "train", "GONE", "--data", "TEXT", "--output", "OUT"},
      {"clicks", "train", "dlrm_small", "--data", "GONE", "--output", "OUT"},
      {"clicks", "eval", "GONE"},
      {"clicks", "predict", "GONE", "TEXT"},
      {"bench", "step", "GONE"},
      {"bench", "step", "--checkpoint", "GONE"},
      {"bench", "methods", "GONE"},
  };
}

TEST(ExitCodes, APathThatDoesNotExistIsAWrongCommandLine) {
  const test::TemporaryFolder folder;
  const std::string gone = folder / "gone.toml", out = folder / "out",
                    text = folder.write("text.txt", "a b c\n"),
                    vocabulary = folder.write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n");
  for (std::vector<std::string> words : commands()) {
    for (std::string& word : words) {
      if (word == "GONE") word = gone;
      if (word == "TEXT") word = text;
      if (word == "VOCABULARY") word = vocabulary;
      if (word.starts_with("OUT")) word = out + word.substr(3);
    }
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.code, 2) << fmt::format("{}", fmt::join(words, " "));
    EXPECT_THAT(outcome.err,
                AllOf(HasSubstr("comera: error: "), HasSubstr("gone.toml"), HasSubstr("no such")))
        << fmt::format("{}", fmt::join(words, " "));
    for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
      EXPECT_EQ(entry.path().extension(), ".txt") << fmt::format("{}", fmt::join(words, " "));
  }
}

// What exists but is no such file is a failure: the command line is right.
TEST(ExitCodes, AFileThatIsNoCheckpointIsAFailure) {
  const test::TemporaryFolder folder;
  const std::string text = folder.write("text.h5", "no checkpoint");
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"eval", text}, {"inspect", text, "--ranks"}, {"export", text, "--to", folder / "out"}}) {
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.code, 1);
    EXPECT_THAT(outcome.err,
                AllOf(StartsWith("comera: error: "), HasSubstr("is not a checkpoint of comera; give "),
                      testing::Not(HasSubstr("copy it again"))));
  }
}

}  // namespace
}  // namespace comera::cli
