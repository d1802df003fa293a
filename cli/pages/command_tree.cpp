#include "cli/pages/command_tree.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <set>
#include <sstream>

namespace comera::cli {

namespace {

// "INT:POSITIVE" is INT, "TEXT:{bpe,unigram}" is {bpe,unigram}.
std::string value_of(const std::string& type) {
  const std::size_t open = type.find('{');
  if (open != type.npos) return type.substr(open, type.find('}', open) + 1 - open);
  return type.substr(0, type.find(':'));
}

std::vector<std::string> choices_of(const std::string& value) {
  std::vector<std::string> choices;
  if (!value.starts_with('{')) return choices;
  std::istringstream list(value.substr(1, value.size() - 2));
  for (std::string choice; std::getline(list, choice, ',');) choices.push_back(choice);
  return choices;
}

// In an order that does not depend on addresses.
std::string names_of(const std::set<CLI::Option*>& options) {
  std::set<std::string> names;
  for (const CLI::Option* option : options) names.insert(option->get_name());
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string default_of(const CLI::Option& option) {
  std::string value = option.get_default_str();
  if (value.starts_with('[') && value.ends_with(']')) value = value.substr(1, value.size() - 2);
  return value;
}

std::string description_of(const CLI::Option& option) {
  std::vector<std::string> more;
  if (const std::string value = default_of(option); !value.empty()) more.push_back("default: " + value);
  if (!option.get_needs().empty()) more.push_back("only with " + names_of(option.get_needs()));
  if (!option.get_excludes().empty()) more.push_back("not with " + names_of(option.get_excludes()));
  std::string text = option.get_description();
  if (more.empty()) return text;
  // "... (default: all; only with --input)"
  const bool has_default = text.ends_with(')') && text.rfind('(') == text.rfind("(default:");
  if (has_default) text.pop_back();
  return text + fmt::format("{}{})", has_default ? "; " : " (", fmt::join(more, "; "));
}

void read_footer(const std::string& footer, CommandText& command) {
  std::istringstream lines(footer);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("  "))
      command.examples.push_back(line.substr(2));
    else if (line != "Examples:" && !line.empty())
      command.notes.push_back(line);
  }
}

void list_commands(const CommandText& command, std::vector<const CommandText*>& all) {
  if (command.commands.empty()) all.push_back(&command);
  for (const CommandText& each : command.commands) list_commands(each, all);
}

}  // namespace

std::string OptionText::syntax() const {
  std::string text = fmt::format("{}", fmt::join(names, ", "));
  if (!value.empty()) text += " " + value;
  return text + (several && !value.ends_with("...") ? " ..." : "");
}

OptionText option_text(const CLI::Option& option) {
  OptionText text;
  text.positional = option.get_positional();
  if (text.positional) text.names = {option.get_name(true, false)};
  for (const std::string& name : option.get_snames()) text.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) text.names.push_back("--" + name);
  text.required = option.get_required();
  text.value = value_of(option.get_type_name());
  text.choices = choices_of(text.value);
  text.several = !text.value.empty() && option.get_expected_max() > 1 && option.get_allow_extra_args();
  text.description = description_of(option);
  return text;
}

std::string CommandText::name(const char* between) const {
  return fmt::format("{}", fmt::join(words, between));
}

std::string CommandText::usage() const {
  std::string text = name();
  for (const OptionText& each : positionals) {
    std::string shown = each.name();  // in capitals, as what stands for another word
    std::ranges::transform(shown, shown.begin(), [](unsigned char c) { return std::toupper(c); });
    if (each.several) shown += "...";
    text += each.required ? " " + shown : fmt::format(" [{}]", shown);
  }
  return text + (commands.empty() ? " [OPTIONS]" : " COMMAND [OPTIONS]");
}

CommandText command_text(const CLI::App& app) {
  CommandText command;
  for (const CLI::App* each = &app; each != nullptr; each = each->get_parent())
    command.words.insert(command.words.begin(), each->get_name());
  command.description = app.get_description();
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    const OptionText text = option_text(*option);
    (text.positional ? command.positionals : command.options).push_back(text);
  }
  read_footer(app.get_footer(), command);
  for (const CLI::App* each : app.get_subcommands(nullptr))
    if (!each->get_group().empty()) command.commands.push_back(command_text(*each));
  return command;
}

std::vector<const CommandText*> all_commands(const CommandText& program) {
  std::vector<const CommandText*> all;
  list_commands(program, all);
  return all;
}

std::string wrapped(const std::string& text, std::size_t columns, std::size_t indent) {
  const auto width = [](const std::string& word) {  // a character of UTF-8 has one byte that begins it
    return static_cast<std::size_t>(
        std::ranges::count_if(word, [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; }));
  };
  std::string lines;
  std::size_t at = indent;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (lines.empty()) {
      lines = word, at += width(word);
    } else if (at + 1 + width(word) <= columns) {
      lines += " " + word, at += 1 + width(word);
    } else {
      lines += "\n" + std::string(indent, ' ') + word, at = indent + width(word);
    }
  }
  return lines;
}

}  // namespace comera::cli
