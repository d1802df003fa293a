#include "cli/program.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

#include "cli/options/arguments.h"
#include "cli/options/old_names.h"
#include "tests/cli/outcome.h"
#include "tests/support/temporary_folder.h"

namespace comera::cli {
namespace {

using testing::HasSubstr;

TEST(Program, CommandsThatAreShownCanBeCopied) {
  EXPECT_EQ(for_shell("runs/first-2_a.b"), "runs/first-2_a.b");
  EXPECT_EQ(for_shell("my runs/it's"), "'my runs/it'\\''s'");
  EXPECT_EQ(for_shell("a$b"), "'a$b'");
  EXPECT_EQ(for_shell(""), "''");
}

TEST(Program, OldNamesOfOptionsWork) {
  for (const OldOption& old : old_options()) {
    std::vector<std::string> words;
    for (std::size_t at = 0; at != std::string::npos;) {
      const std::string command = old.command;
      const std::size_t end = command.find(' ', at);
      words.push_back(command.substr(at, end == command.npos ? end : end - at));
      at = end == command.npos ? end : end + 1;
    }
    EXPECT_THAT(run([&] {
                  auto all = words;
                  all.push_back("--help");
                  return all;
                }())
                    .out,
                HasSubstr(old.name));
    // The name is taken, and its value, which is none, is judged by the option of now.
    for (const std::string value : {" ", "="}) {
      std::vector<std::string> asked = words;
      if (value == "=")
        asked.push_back(fmt::format("{}=x", old.old_name));
      else
        asked.insert(asked.end(), {old.old_name, "x"});
      EXPECT_THAT(run(asked).err,
                  testing::AllOf(HasSubstr(fmt::format("note: {} is {} now; the old name still works\n",
                                                       old.old_name, old.name)),
                                 HasSubstr(fmt::format("error: {}: x is not", old.name))));
    }
  }
}

TEST(Program, OldNamesOfCommandsWork) {
  for (const OldCommand& old : old_commands()) {
    const std::string note =
        fmt::format("note: {} is {} now; the old name still works\n", old.old_name, old.name);
    const Outcome help = run({old.old_name, "--help"}), now = run({old.name, "--help"});
    EXPECT_EQ(help.code, 0);
    EXPECT_EQ(help.out, now.out);
    EXPECT_EQ(help.err, note);
    EXPECT_EQ(now.err, "");
    EXPECT_THAT(run({old.old_name, "/nonexistent", "x", "--nonsense"}).err,
                testing::AllOf(testing::StartsWith(note),
                               HasSubstr(fmt::format("--nonsense is not an option of {}", old.name))));
    EXPECT_THAT(run({"--help"}).out, testing::Not(HasSubstr(fmt::format("  {} ", old.old_name))));
  }
}

TEST(Program, RecipesAreListedShownAndCopied) {
  const Outcome all = run({"recipes"});
  EXPECT_EQ(all.code, 0) << all.err;
  EXPECT_THAT(all.out, HasSubstr("quickstart  1.2 M parameters (dense: 5.3 M)\n    A small encoder"));
  EXPECT_THAT(all.out, HasSubstr("glue  for a pretrained model (--from)"));
  EXPECT_EQ(run({"recipes", "list"}).out, all.out);
  std::istringstream lines(all.out);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 88U) << line;
  const std::string text = test::read_text(COMERA_SOURCE_DIR "/recipes/quickstart.toml");
  EXPECT_EQ(run({"recipes", "show", "quickstart"}).out, text);
  const test::TemporaryFolder folder;
  const std::string file = (folder / "mine.toml").string();
  EXPECT_EQ(run({"recipes", "copy", "quickstart", file}).code, 0);
  EXPECT_EQ(test::read_text(file), text);
  EXPECT_THAT(run({"recipes", "copy", "quickstart", file}).err, HasSubstr("already exists"));
  EXPECT_THAT(run({"recipes", "show", "quikstart"}).err, HasSubstr("did you mean 'quickstart'?"));
}

TEST(Program, VersionAndHelp) {
  EXPECT_EQ(run({"--version"}).code, 0);
  EXPECT_THAT(run({"--version"}).out, testing::StartsWith("comera "));
  EXPECT_EQ(run({"--help"}).code, 0);
  EXPECT_THAT(run({"--help"}).out, HasSubstr("tokenizer"));
  EXPECT_EQ(run({"data", "--help"}).code, 0);
  EXPECT_THAT(run({"data", "--help"}).out, HasSubstr("Examples:"));
}

TEST(Program, AWrongCommandLineIsAnswered) {
  const Outcome misspelt = run({"tokeniser"});
  EXPECT_EQ(misspelt.code, 2);
  EXPECT_EQ(misspelt.err, "comera: error: 'tokeniser' is not a command; did you mean 'tokenizer'?\n");
  EXPECT_EQ(run({"train"}).err,
            "comera: error: 'train' is not a command; did you mean pretrain, finetune or clicks train?\n");
  EXPECT_EQ(run({"bench", "precison"}).err,
            "comera: error: 'bench precison' is not a command; did you mean 'precision'?\n");
  EXPECT_EQ(run({"bench", "precision", "--threads", "100000"}).err,
            "comera: error: --threads: 100000 is more than 4096; see --help\n");
  EXPECT_EQ(run({"bench", "precision", "--tokens", "9223372036854775808"}).err,
            "comera: error: --tokens: 9223372036854775808 is more than 1000000000; see --help\n");
  // A seed may be any that a recipe may have.
  const auto with_seed = [](const char* seed) {
    return run({"fill-mask", "/nonexistent", "--held-out", "/nonexistent", "--seed", seed}).err;
  };
  for (const char* seed : {"0", "1000000000000000001", "9223372036854775807"})
    EXPECT_THAT(with_seed(seed), testing::StartsWith("comera: error: /nonexistent: no such")) << seed;
  for (const char* seed : {"9223372036854775808", "99999999999999999999999"})
    EXPECT_EQ(with_seed(seed), fmt::format("comera: error: --seed: {} is more than 9223372036854775807; see "
                                           "--help\n",
                                           seed));
  for (const char* seed : {"-1", "-9223372036854775809", "1.5", "1e3", "x", "[1]", "1 2"})
    EXPECT_EQ(with_seed(seed),
              fmt::format("comera: error: --seed: {} is not a whole number from 0 on; see --help\n", seed));
  EXPECT_EQ(run({"bench", "precision", "--tokens", "1.5"}).err,
            "comera: error: --tokens: 1.5 is not a whole number above 0; see --help\n");
  for (const auto& arguments : std::vector<std::vector<std::string>>{
           {}, {"--nonsense"}, {"data"}, {"data", "--nonsense"}, {"zzzzzzzz"}, {""}}) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 2);
    EXPECT_THAT(outcome.err, testing::StartsWith("comera: error: "));
    EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome.err;
  }
}

TEST(Program, AWordTooManyIsNamed) {
  EXPECT_EQ(run({"inspect", "recipe.toml", "--vocabluary=3", "--more"}).err,
            "comera: error: --vocabluary is not an option of inspect; did you mean --vocabulary?\n");
  EXPECT_EQ(run({"bench", "step", "recipe.toml", "--zzzzzzzzzzzz"}).err,
            "comera: error: --zzzzzzzzzzzz is not an option of bench step; see --help\n");
  EXPECT_EQ(run({"bench", "precision", "words", "more"}).err,
            "comera: error: unexpected argument 'words' for bench precision; see --help\n");
}

TEST(Program, WordsOfOtherProgramsLeadToTheRecipesKeys) {
  EXPECT_EQ(run({"finetune", "table", "--lr", "1e-3"}).err,
            "comera: error: --lr is not an option of finetune; it is a key of the recipe: --set "
            "phase.0.learning_rate=...\n");
  EXPECT_EQ(
      run({"finetune", "table", "--set", "run.seed=1", "run.threads=2"}).err,
      "comera: error: unexpected argument 'run.threads=2' for finetune; give each key its own --set: --set "
      "run.threads=2\n");
  EXPECT_THAT(run({"inspect", "--set", "run.seed=1", "run.threads=2"}).err, HasSubstr("--set run.threads=2"));
}

TEST(Program, WordsInBracketsAreNoLists) {
  EXPECT_THAT(run({"inspect", "[a, b]"}).err, testing::StartsWith("comera: error: [a, b]: "));
  EXPECT_THAT(run({"eval", "[/nonexistent/a,b]"}).err, HasSubstr("[/nonexistent/a,b]: no such"));
  // Where they are not taken, they are named as they were given.
  EXPECT_EQ(run({"bench", "precision", "[a, b]"}).err,
            "comera: error: unexpected argument '[a, b]' for bench precision; see --help\n");
  EXPECT_EQ(run({"bench", "precision", "--threads=[1]"}).err,
            "comera: error: --threads: [1] is not a whole number from 0 on; see --help\n");
  EXPECT_EQ(run({"inspect", "x", "--ranks=[1]"}).err,
            "comera: error: --ranks: [1] is not a number; see --help\n");
}

TEST(Program, ChoicesAreNamedInPlainWords) {
  const Outcome outcome = run({"tokenizer", "--input", "x", "--output", "y", "--model", "foo"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.err, "comera: error: --model: 'foo' is not a choice; give bpe, unigram; see --help\n");
  EXPECT_THAT(run({"tokenizer", "--help"}).out, HasSubstr("--model {bpe,unigram} "));
}

TEST(Program, WhatIsMissingIsNamedWithWhatToGive) {
  const auto error = [](const std::vector<std::string>& words) {
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.code, 2);
    return outcome.err;
  };
  EXPECT_THAT(error({"pretrain"}),
              testing::AllOf(HasSubstr("the argument RECIPE is missing: give a TOML file or the name of a "
                                       "built-in recipe ("),
                             HasSubstr("quickstart")));
  EXPECT_EQ(error({"eval"}),
            "comera: error: the argument MODEL is missing: give a checkpoint, or a run's folder (its best "
            "model, else its newest); see comera eval --help\n");
  EXPECT_EQ(error({"data", "--input", "x", "--tokenizer", "y"}),
            "comera: error: --output is missing: give --output DIR; see comera data --help\n");
}

TEST(Program, OptionsThatNeedOrForbidOthersAreExplained) {
  EXPECT_EQ(run({"pretrain", "quickstart", "--held-out", "0.1"}).err,
            "comera: error: --held-out has an effect only with --input; give both or neither\n");
  const std::string both = run({"pretrain", "quickstart", "--input", "x", "--data", "y"}).err;
  EXPECT_THAT(both, HasSubstr(" cannot be given together; omit one of them\n"));
  EXPECT_THAT(both, testing::AllOf(HasSubstr("--input"), HasSubstr("--data")));
  EXPECT_EQ(run({"pairs", "--input", "x", "--output", "y", "--held-out", "2"}).err,
            "comera: error: --held-out: 2 is not a number from 0.001 to 0.9; see --help\n");
  EXPECT_EQ(run({"pairs", "--input", "x", "--output", "y", "--copies", "1.5"}).err,
            "comera: error: --copies: 1.5 is not a whole number from 1 to 1000; see --help\n");
  EXPECT_EQ(run({"pretrain", "quickstart", "--output"}).err,
            "comera: error: --output needs a value; see --help\n");
}

TEST(Program, FailuresAreOneSentence) {
  const Outcome outcome = run({"data", "--input", "/nonexistent", "--tokenizer", "/nonexistent.model",
                               "--output", "/nonexistent/out"});
  EXPECT_NE(outcome.code, 0);
  EXPECT_THAT(outcome.err, testing::StartsWith("comera: error: "));
  EXPECT_THAT(outcome.err, HasSubstr("/nonexistent"));
}

}  // namespace
}  // namespace comera::cli
