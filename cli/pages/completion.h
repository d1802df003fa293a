#pragma once

#include <string>
#include <vector>

#include "cli/pages/command_tree.h"

// Scripts that complete command lines of comera in a shell. Recipes are the names of those that come with the
// program.
namespace comera::cli {

std::string bash_completion(const CommandText& program, const std::vector<std::string>& recipes);
std::string zsh_completion(const CommandText& program, const std::vector<std::string>& recipes);

}  // namespace comera::cli
