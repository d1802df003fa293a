#include "cli/pages/help_format.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>

#include "cli/pages/command_tree.h"

namespace comera::cli {

namespace {

constexpr std::size_t most_columns = 100, usual_columns = 80, fewest_columns = 40;
constexpr std::size_t left_columns = 28;  // of names, before the descriptions

}  // namespace

std::size_t help_columns() {
  winsize size{};
  if (isatty(STDOUT_FILENO) != 1 || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
    return usual_columns;
  return std::clamp<std::size_t>(size.ws_col, fewest_columns, most_columns);
}

std::string HelpFormat::entry(const std::string& left, const std::string& right) const {
  const std::size_t indent = std::min(left_columns, columns_ / 3);
  std::string text = "  " + left;
  // Two spaces tell names and description apart.
  if (text.size() + 2 > indent)
    text += "\n" + std::string(indent, ' ');
  else
    text.resize(indent, ' ');
  return text + wrapped(right, columns_, indent) + "\n";
}

std::string HelpFormat::make_usage(const CLI::App* app, std::string /*name*/) const {
  return "Usage: " + wrapped(command_text(*app).usage(), columns_, 7) + "\n";
}

std::string HelpFormat::make_description(const CLI::App* app) const {
  return wrapped(app->get_description(), columns_, 0) + "\n\n";
}

// Examples can be copied and stay as they are.
std::string HelpFormat::make_footer(const CLI::App* app) const {
  std::istringstream lines(app->get_footer());
  std::string text;
  bool example = false;
  for (std::string line; std::getline(lines, line);) {
    const bool was_example = std::exchange(example, line.starts_with("  "));
    if (was_example && !example) text += "\n";
    text += (example ? line : wrapped(line, columns_, 0)) + "\n";
  }
  return text;
}

std::string HelpFormat::make_option(const CLI::Option* option, bool /*is_positional*/) const {
  const OptionText text = option_text(*option);
  return entry(text.syntax() + (text.required ? " REQUIRED" : ""), text.description);
}

std::string HelpFormat::make_subcommand(const CLI::App* command) const {
  return entry(command->get_name(), command->get_description());
}

}  // namespace comera::cli
