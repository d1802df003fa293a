#pragma once

namespace CLI {
class App;
}

namespace comera::cli {

// UsageError for an argument that is not UTF-8: recipes, checkpoints and metrics say what a run was started
// with, and are text that every reader must be able to take.
void check_arguments(int argc, const char* const* argv);

// Options and words of all commands are refused if they are given as empty text ("--output ''").
void refuse_empty_values(CLI::App& program);

}  // namespace comera::cli
