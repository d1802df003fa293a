#include "cli/pages/command_pages.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <string_view>

#include "kernels/core/version.h"

namespace comera::cli {

namespace {

constexpr std::size_t columns = 120;

std::string sentence(std::string text) {
  if (!text.empty() && text.back() != '.' && text.back() != '?') text += '.';
  return text;
}

// A command with options, or one that only has others below it.
std::string section_of(const CommandText& command) {
  std::string text = fmt::format("## {}\n{}\n\n    {}\n\n", command.name(),
                                 wrapped(sentence(command.description), columns, 0), command.usage());
  const auto list = [&](const std::vector<OptionText>& options) {
    for (const OptionText& option : options) {
      if (option.name() == "--help") continue;
      const std::string item =
          fmt::format("- `{}`{}: {}", option.positional ? option.name() : option.syntax(),
                      option.required ? " (required)" : "", option.description);
      text += wrapped(item, columns, 2) + "\n";
    }
  };
  list(command.positionals);
  list(command.options);
  for (const CommandText& each : command.commands)
    text += wrapped(fmt::format("- `{}`: {}", each.words.back(), each.description), columns, 2) + "\n";
  if (!command.examples.empty()) text += "\nExamples:\n\n";
  for (const std::string& line : command.examples) text += fmt::format("    {}\n", line);
  for (const std::string& note : command.notes) text += "\n" + wrapped(note, columns, 0) + "\n";
  return text;
}

// ---- Manual pages, in groff's macros of man(7).

// The next character of UTF-8, as groff names it.
std::string named_character(std::string_view text, std::size_t& at) {
  const auto lead = static_cast<unsigned char>(text[at]);
  const int more = lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : 1;
  std::uint32_t code = lead & (0x3fU >> static_cast<unsigned>(more));
  for (int i = 0; i < more && at + 1 < text.size(); ++i)
    code = code << 6U | (static_cast<unsigned char>(text[++at]) & 0x3fU);
  return fmt::format("\\[u{:04X}]", code);
}

std::string roff(std::string_view text) {
  std::string escaped;
  if (text.starts_with('.') || text.starts_with('\'')) escaped = "\\&";
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if ((static_cast<unsigned char>(c) & 0x80U) != 0)
      escaped += named_character(text, at);
    else if (c == '\\')
      escaped += "\\e";
    else if (c == '-')
      escaped += "\\-";
    else if (c == '\'')
      escaped += "\\(aq";
    else if (c == '`')
      escaped += "\\(ga";
    else if (c == '^')
      escaped += "\\(ha";
    else if (c == '~')
      escaped += "\\(ti";
    else
      escaped += c;
  }
  return escaped;
}

// "\fB\-\-set\fR \fIKEY=VALUE\fR"
std::string roff_syntax(const OptionText& option) {
  std::string text;
  for (const std::string& name : option.names)
    text += fmt::format("{}\\fB{}\\fR", text.empty() ? "" : ", ", roff(name));
  if (!option.value.empty() && !option.positional) text += fmt::format(" \\fI{}\\fR", roff(option.value));
  return text + (option.several && !option.value.ends_with("...") ? " ..." : "");
}

std::string roff_entry(const std::string& name, const std::string& text) {
  return fmt::format(".TP\n{}\n{}\n", name, roff(text));
}

std::string page_name(const CommandText& command) { return command.name("-"); }

std::string references(const CommandText& command, const CommandText& program) {
  std::vector<std::string> names;
  if (command.words.size() > 1) names.push_back("comera");
  if (command.words.size() > 2) names.push_back(fmt::format("comera-{}", command.words[1]));
  for (const CommandText& each : command.words.size() == 1 ? program.commands : command.commands)
    names.push_back(page_name(each));
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i)
    text += fmt::format(".BR {} (1){}\n", roff(names[i]), i + 1 < names.size() ? "," : "");
  return text;
}

std::string manual_page(const CommandText& command, const CommandText& program) {
  std::string title = page_name(command);
  std::ranges::transform(title, title.begin(), [](unsigned char c) { return std::toupper(c); });
  std::string text = fmt::format(".TH {} 1 \"\" \"comera {}\" \"User Commands\"\n", roff(title), version());
  std::string purpose = command.description;
  purpose[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(purpose[0])));
  text += fmt::format(".SH NAME\n{} \\- {}\n", roff(page_name(command)), roff(purpose));
  const std::string arguments = command.usage().substr(command.name().size());
  text += fmt::format(".SH SYNOPSIS\n.B {}\n{}\n", roff(command.name()), roff(arguments.substr(1)));
  text += fmt::format(".SH DESCRIPTION\n{}\n", roff(sentence(command.description)));
  for (const std::string& note : command.notes) text += fmt::format(".PP\n{}\n", roff(note));
  if (!command.commands.empty()) text += ".SH COMMANDS\n";
  for (const CommandText& each : command.commands)
    text += roff_entry(fmt::format("\\fB{}\\fR", roff(each.words.back())), sentence(each.description));
  if (!command.positionals.empty()) text += ".SH ARGUMENTS\n";
  for (const OptionText& each : command.positionals)
    text += roff_entry(roff_syntax(each), sentence(each.description));
  text += ".SH OPTIONS\n";
  for (const OptionText& each : command.options)
    text += roff_entry(roff_syntax(each),
                       sentence(each.description) + (each.required ? " This option is required." : ""));
  if (!command.examples.empty()) {
    text += ".SH EXAMPLES\n.nf\n";
    for (const std::string& line : command.examples) text += roff(line) + "\n";
    text += ".fi\n";
  }
  text +=
      ".SH EXIT STATUS\n"
      "0 for success, also of a run that was stopped and saved; 1 for a failure while working; 2 for a wrong "
      "command line or recipe, also if a path that it names does not exist.\n";
  return text + ".SH SEE ALSO\n" + references(command, program);
}

void add_pages(const CommandText& command, const CommandText& program,
               std::map<std::string, std::string>& pages) {
  pages[page_name(command) + ".1"] = manual_page(command, program);
  for (const CommandText& each : command.commands) add_pages(each, program, pages);
}

}  // namespace

std::string command_reference(const CommandText& program) {
  std::string text =
      "# Command reference\n"
      "This page lists every command with its arguments, options and examples. `comera COMMAND --help` and\n"
      "`man comera-COMMAND` show the same; [commands](../guide/commands.md) explains when to use which.\n"
      "`COMERA_UPDATE_DOCS=1 ctest --preset release -R CommandReference` writes this page.\n"
      "\n"
      "Give positional arguments before options that take several values (`...`). Exit codes are 0 for "
      "success, 1 for a\n"
      "failure while working and 2 for a wrong command line or recipe, also if a path that it names does not "
      "exist.\n";
  for (const CommandText* command : all_commands(program)) text += "\n" + section_of(*command);
  return text;
}

std::map<std::string, std::string> manual_pages(const CommandText& program) {
  std::map<std::string, std::string> pages;
  add_pages(program, program, pages);
  return pages;
}

}  // namespace comera::cli
