#pragma once

#include <string>
#include <vector>

namespace comera::cli {

// An option's name in earlier versions, which still works. Add an entry when an option is renamed; never
// remove one. Recipes have a similar table: recipes/schema/old_names.h.
struct OldOption {
  const char* command;  // "clicks eval"
  const char* old_name;
  const char* name;
};
const std::vector<OldOption>& old_options();

// A command's name in earlier versions.
struct OldCommand {
  const char* old_name;
  const char* name;
};
const std::vector<OldCommand>& old_commands();

// "fill-mask" for "fill"; any other word as it is.
std::string command_of_now(const std::string& word);

// Replaces old option names among the words of a command line, in any order, and prints a note once for each.
void use_names_of_now(const std::string& command, std::vector<std::string>& words);

}  // namespace comera::cli
