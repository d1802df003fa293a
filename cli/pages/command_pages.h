#pragma once

#include <map>
#include <string>

#include "cli/pages/command_tree.h"

// Pages about the commands, written from their declarations.
namespace comera::cli {

// docs/reference/commands.md
std::string command_reference(const CommandText& program);

// Manual pages by their file names, such as comera-clicks-train.1.
std::map<std::string, std::string> manual_pages(const CommandText& program);

}  // namespace comera::cli
