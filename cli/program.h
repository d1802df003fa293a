#pragma once

namespace CLI {
class App;
}

namespace comera::cli {

// Declares all commands, with the words of --help.
void declare_program(CLI::App& program);

// The whole program: parses, runs the chosen subcommand, prints errors on stderr as "comera: error: ...".
// Returns the exit code: 0, 1 for a failure, 2 for a wrong command line or recipe.
int run_program(int argc, const char* const* argv);

}  // namespace comera::cli
