#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace comera::cli {

// UsageError for an argument that is not UTF-8: recipes, checkpoints and metrics say what a run was started
// with, and are text that every reader must be able to take.
void check_arguments(int argc, const char* const* argv);

// Options and words of all commands are refused if they are given as empty text ("--output ''").
void refuse_empty_values(CLI::App& program);

// A word as a shell takes it, for commands that are shown to be copied.
std::string for_shell(const std::string& word);

// The words for CLI11's parse(), last first, so that options and words of all commands get each as it was
// given: by itself, CLI11 takes a word "[a, b]" for a list and drops the brackets. Words that end with a
// bracket are marked on their way, with a byte that no UTF-8 has; what reports words of the parser must take
// it off.
std::vector<std::string> words_for(CLI::App& program, int argc, const char* const* argv);
std::string without_marks(std::string text);

}  // namespace comera::cli
