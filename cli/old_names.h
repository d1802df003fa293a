#pragma once

#include <string>
#include <vector>

namespace comera::cli {

// An option's name in earlier versions, which still works: an entry is added when an option is renamed, and
// never removed. Recipes have such a table, too: recipes/old_names.h.
struct OldOption {
  const char* command;  // "clicks eval"
  const char* old_name;
  const char* name;
};
const std::vector<OldOption>& old_options();

// A command's name in earlier versions: of one that stands first in a command line.
struct OldCommand {
  const char* old_name;
  const char* name;
};
const std::vector<OldCommand>& old_commands();

// "fill-mask" for "fill"; any other word as it is.
std::string command_of_now(const std::string& word);

// The words of a command line, from the last to the first, with the names of now. Says so once for each old
// one.
void use_names_of_now(const std::string& command, std::vector<std::string>& words);

}  // namespace comera::cli
