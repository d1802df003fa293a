// What is written from the declarations of the commands: --help, the reference, manual pages, completion.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "cli/pages/command_pages.h"
#include "cli/pages/command_tree.h"
#include "cli/pages/completion.h"
#include "cli/pages/help_format.h"
#include "cli/program.h"
#include "tests/cli/outcome.h"
#include "tests/cli/shell.h"

namespace comera::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

const CommandText& program_text() {
  static const CommandText text = [] {
    CLI::App program;
    declare_program(program);
    return command_text(program);
  }();
  return text;
}

// Bytes that do not continue a character of UTF-8.
std::size_t width_of(const std::string& line) {
  return static_cast<std::size_t>(
      std::ranges::count_if(line, [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; }));
}

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::string squeezed(const std::string& text) {
  std::istringstream in(text);
  std::string words;
  for (std::string word; in >> word;) words += word + " ";
  return words;
}

void for_each_command(CLI::App& app, const std::function<void(CLI::App&)>& call) {
  call(app);
  for (CLI::App* each : app.get_subcommands(nullptr)) for_each_command(*each, call);
}

TEST(Help, FitsTheTerminalWithoutBreakingWords) {
  for (const std::size_t columns : {60, 80, 100}) {
    CLI::App program;
    declare_program(program);
    for_each_command(program, [&](CLI::App& command) {
      command.formatter(std::make_shared<HelpFormat>(columns));
      const std::string help = command.help();
      const CommandText text = command_text(command);
      for (const std::string& line : lines_of(help)) {
        const bool example =
            std::ranges::any_of(text.examples, [&](const std::string& each) { return line == "  " + each; });
        // A word that is longer than a line, or the choices of an option.
        const bool unbroken =
            line.find("  ", line.find_first_not_of(' ')) == line.npos && line.starts_with(' ');
        EXPECT_TRUE(width_of(line) <= columns || example || unbroken) << columns << ": " << line;
      }
      for (const auto* options : {&text.positionals, &text.options})
        for (const OptionText& option : *options)
          EXPECT_THAT(squeezed(help), HasSubstr(squeezed(option.description))) << text.name();
    });
  }
}

TEST(Help, EveryCommandAndOptionIsDescribed) {
  for (const CommandText* command : all_commands(program_text())) {
    EXPECT_FALSE(command->description.empty()) << command->name();
    EXPECT_FALSE(command->examples.empty()) << command->name();
    for (const std::string& line : command->examples) EXPECT_LE(line.size(), 78U) << line;  // and an indent
    for (const auto* options : {&command->positionals, &command->options})
      for (const OptionText& option : *options)
        EXPECT_GT(option.description.size(), 3U) << command->name() << " " << option.name();
  }
}

TEST(Help, IsOf80ColumnsInAPipe) {
  for (const std::string& line : lines_of(run({"--help"}).out)) EXPECT_LE(line.size(), 80U) << line;
  EXPECT_THAT(run({"--help"}).out, Not(HasSubstr("write-manual")));
}

TEST(Help, HiddenCommandsAreNotSuggested) {
  EXPECT_THAT(run({"write-manua"}).err, Not(HasSubstr("did you mean")));
}

TEST(CommandReference, IsCheckedIn) {
  const std::string path = COMERA_SOURCE_DIR "/docs/reference/commands.md",
                    page = command_reference(program_text());
  if (std::getenv("COMERA_UPDATE_DOCS") != nullptr) std::ofstream(path) << page;
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  EXPECT_EQ(text.str(), page)
      << "run this test with COMERA_UPDATE_DOCS=1 to write docs/reference/commands.md again";
}

class Manual : public testing::Test, protected test::Shell {
 protected:
  Manual() { setenv("M", folder_.path().c_str(), 1); }

  test::TemporaryFolder folder_;
};

TEST_F(Manual, PagesAreWrittenForEveryCommand) {
  const Ended ended = shell("\"$C\" write-manual \"$M\" && ls \"$M\"/man/man1");
  EXPECT_EQ(ended.code, 0) << ended.errors;
  for (const CommandText* command : all_commands(program_text()))
    EXPECT_THAT(ended.output, HasSubstr(command->name("-") + ".1\n"));
  for (const char* name : {"comera.1\n", "comera-clicks.1\n", "comera-bench.1\n"})
    EXPECT_THAT(ended.output, HasSubstr(name));
  if (shell("command -v groff").code != 0) GTEST_SKIP() << "there is no groff to check them with";
  const Ended checked = shell("for p in \"$M\"/man/man1/*.1; do groff -ww -man -Tutf8 -P-c \"$p\"; done");
  EXPECT_EQ(checked.errors, "");
  EXPECT_THAT(checked.output, HasSubstr("NAME"));
  EXPECT_THAT(checked.output, HasSubstr("comera pretrain quickstart --input ~/src --output runs/first"));
}

class Completion : public testing::Test, protected test::Shell {
 protected:
  // What is offered for the last of these words.
  std::string offered(const std::vector<std::string>& words) {
    std::string array;
    for (const std::string& word : words) array += fmt::format("'{}' ", word);
    const Ended ended = shell(fmt::format(
        "cd '{}'; bash -c 'source <(\"$C\" completion bash); COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); "
        "_comera; printf \"%s\\n\" \"${{COMPREPLY[@]}}\"' bash {}",
        folder_.path().string(), array));
    EXPECT_EQ(ended.code, 0);
    EXPECT_EQ(ended.errors, "");
    return "\n" + ended.output;
  }

  test::TemporaryFolder folder_;
};

TEST_F(Completion, OffersCommandsAndOptions) {
  EXPECT_EQ(offered({"comera", "pret"}), "\npretrain\n");
  EXPECT_THAT(offered({"comera", ""}), testing::AllOf(HasSubstr("\nfill-mask\n"), HasSubstr("\nclicks\n"),
                                                      Not(HasSubstr("write-manual"))));
  EXPECT_EQ(offered({"comera", "clicks", "tr"}), "\ntrain\n");
  EXPECT_EQ(offered({"comera", "pretrain", "quickstart", "--dry"}), "\n--dry-run\n");
  EXPECT_EQ(offered({"comera", "bench", "methods", "--galore"}), "\n--galore-rank\n");
  EXPECT_EQ(offered({"comera", "--ver"}), "\n--version\n");
}

TEST_F(Completion, OffersValues) {
  EXPECT_EQ(offered({"comera", "pretrain", "--resume", ""}), "\nnever\nauto\nalways\n");
  EXPECT_EQ(offered({"comera", "pretrain", "--resume", "=", "a"}), "\nauto\nalways\n");
  EXPECT_EQ(offered({"comera", "pretrain", "--resume", "="}), "\nnever\nauto\nalways\n");
  EXPECT_EQ(offered({"comera", "embed", "run", "--device", "c"}), "\ncpu\ncuda\n");
  EXPECT_EQ(offered({"comera", "completion", ""}), "\nbash\nzsh\n");
  EXPECT_EQ(offered({"comera", "pretrain", "--set", ""}), "\n\n");
}

TEST_F(Completion, OffersRecipesAndFiles) {
  for (const std::string name : {"one.toml", "two words.toml"}) std::ofstream(folder_ / name);
  std::filesystem::create_directory(folder_ / "runs");
  EXPECT_EQ(offered({"comera", "pretrain", "quick"}), "\nquickstart\n");
  EXPECT_THAT(offered({"comera", "inspect", ""}),
              testing::AllOf(HasSubstr("\nquickstart\n"), HasSubstr("\none.toml\n"),
                             HasSubstr("\ntwo words.toml\n")));
  EXPECT_EQ(offered({"comera", "embed", "r"}), "\nruns\n");
  EXPECT_EQ(offered({"comera", "pretrain", "quickstart", "--output", ""}), "\nruns\n");
  // An option with one value has it; one with several takes more.
  EXPECT_EQ(offered({"comera", "pretrain", "--output", "runs", "one"}), "\none.toml\n");
  EXPECT_EQ(offered({"comera", "pretrain", "quickstart", "--data", "runs", "r"}), "\nruns\n");
}

TEST_F(Completion, OfZshNamesEveryOption) {
  const std::string script = zsh_completion(program_text(), {"quickstart"});
  for (const CommandText* command : all_commands(program_text()))
    for (const OptionText& option : command->options) EXPECT_THAT(script, HasSubstr(option.name()));
  if (shell("command -v zsh").code != 0) GTEST_SKIP() << "there is no zsh to load it with";
  const Ended ended = shell(
      "zsh -fc 'autoload -U compinit && compinit -D -u && source <(\"$C\" completion zsh) && "
      "whence -w _comera_pretrain'");
  EXPECT_EQ(ended.code, 0) << ended.errors;
  EXPECT_EQ(ended.errors, "");
}

}  // namespace
}  // namespace comera::cli
