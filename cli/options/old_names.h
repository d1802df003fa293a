#pragma once

#include <string>
#include <vector>

namespace comera::cli {

// An option's name in earlier versions, which still works: an entry is added when an option is renamed, and
// never removed. Recipes have such a table, too: recipes/schema/old_names.h.
struct OldOption {
  const char* command;  // "clicks eval"
  const char* old_name;
  const char* name;
};
const std::vector<OldOption>& old_options();

// The words of a command line, in any order, with the options' names of now. Says so once for each old one.
void use_names_of_now(const std::string& command, std::vector<std::string>& words);

}  // namespace comera::cli
