#include "cli/options/arguments.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>

#include "data/tokenizers/text/utf8.h"
#include "kernels/core/check.h"

namespace comera::cli {

namespace {

// With non-ASCII bytes as "\xe9", as in the shell's $'...'.
std::string readable(std::string_view text) {
  std::string shown;
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    shown += code < 0x80 ? std::string(1, c) : fmt::format("\\x{:02x}", code);
  }
  return shown;
}

// "--output" of "--output x" and of "--output=x", "--set data.train" of "--set data.train=x"; empty for a
// word without an option.
std::string option_of(const char* const* argv, int i) {
  const std::string_view word = argv[i], before = i > 1 ? argv[i - 1] : "";
  if (word.starts_with("--set=")) return "--set " + std::string(word.substr(6, word.find('=', 6) - 6));
  if (word.starts_with("-")) return std::string(word.substr(0, word.find('=')));
  if (before == "--set") return "--set " + std::string(word.substr(0, word.find('=')));
  return before.starts_with("-") ? std::string(before) : "";
}

constexpr char bracket_mark = '\xff';

void take_marks_off(CLI::App& command) {
  for (CLI::Option* option : command.get_options()) option->transform(without_marks);  // before all checks
  for (CLI::App* each : command.get_subcommands(nullptr)) take_marks_off(*each);
}

}  // namespace

void check_arguments(int argc, const char* const* argv) {
  for (int i = 1; i < argc; ++i) {
    if (data::is_utf8(argv[i])) continue;
    const std::string option = option_of(argv, i);
    throw UsageError(
        fmt::format("{}'{}' is not UTF-8, which recipes and checkpoints need; rename the file or folder, or "
                    "give a link with a UTF-8 name",
                    option.empty() ? "" : readable(option) + ": ", readable(argv[i])));
  }
}

void refuse_empty_values(CLI::App& program) {
  for (CLI::Option* option : program.get_options())
    option->check([](const std::string& value) {
      return value.empty() ? "the value is empty; give one, or omit the option" : "";
    });
  for (CLI::App* command : program.get_subcommands(nullptr)) refuse_empty_values(*command);
}

std::vector<std::string> words_for(CLI::App& program, int argc, const char* const* argv) {
  take_marks_off(program);
  std::vector<std::string> words;
  for (int i = argc - 1; i > 0; --i) {
    std::string& word = words.emplace_back(argv[i]);
    if (word.ends_with(']')) word += bracket_mark;
  }
  return words;
}

std::string without_marks(std::string text) {
  std::erase(text, bracket_mark);
  return text;
}

std::string for_shell(const std::string& word) {
  constexpr std::string_view plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./,:@%";
  if (!word.empty() && word.find_first_not_of(plain) == std::string::npos) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

}  // namespace comera::cli
