#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace comera::cli {

// UsageError for an argument that is not UTF-8: recipes, checkpoints and metrics record a run's arguments, as
// text that every reader must accept.
void check_arguments(int argc, const char* const* argv);

// Rejects empty values of options and positional arguments of all commands ("--output ''").
void refuse_empty_values(CLI::App& program);

// Quotes a word for the shell, for commands that are shown to be copied.
std::string for_shell(const std::string& word);

// The words for CLI11's parse(), last first. Every word reaches its option or argument unchanged: CLI11 would
// treat a word "[a, b]" as a list and drop the brackets. Words that end with a bracket are therefore marked
// with a byte that UTF-8 never contains; code that reports words of the parser must remove it.
std::vector<std::string> words_for(CLI::App& program, int argc, const char* const* argv);
std::string without_marks(std::string text);

}  // namespace comera::cli
