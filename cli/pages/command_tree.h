#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

// The declared commands and options as text. --help, the command reference, manual pages and completion are
// written from it.
namespace comera::cli {

struct OptionText {
  std::vector<std::string> names;  // "-h", "--help"; "recipe" if positional
  bool positional = false;
  bool required = false;
  bool several = false;              // one use takes several values
  std::string value;                 // "DIR", "{bpe,unigram}"; "" for a flag
  std::vector<std::string> choices;  // of "{bpe,unigram}"
  std::string description;           // with default and relations: "... (default: 5; only with --input)"

  std::string name() const { return names.back(); }
  std::string syntax() const;  // "-h, --help", "--set KEY=VALUE", "--data DIR ..."
};
OptionText option_text(const CLI::Option& option);

struct CommandText {
  std::vector<std::string> words;  // "comera", "clicks", "train"
  std::string description;
  std::vector<OptionText> positionals, options;
  std::vector<std::string> examples;  // lines, of which a long command has several
  std::vector<std::string> notes;     // paragraphs
  std::vector<CommandText> commands;

  std::string name(const char* between = " ") const;  // "comera clicks train"
  std::string usage() const;                          // "comera clicks train recipe [OPTIONS]"
};
// Without commands that are not shown.
CommandText command_text(const CLI::App& app);

// Commands that have none below them, depth first.
std::vector<const CommandText*> all_commands(const CommandText& program);

// The text wrapped to `columns`; every line but the first is indented by `indent`.
std::string wrapped(const std::string& text, std::size_t columns, std::size_t indent);

}  // namespace comera::cli
