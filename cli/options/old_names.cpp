#include "cli/options/old_names.h"

#include <set>
#include <string_view>

#include "kernels/core/console.h"

namespace comera::cli {

const std::vector<OldOption>& old_options() {
  // Before 0.2.0.
  static const std::vector<OldOption> options = {
      {"clicks eval", "--examples-per-pack", "--batch-size"},
      {"clicks predict", "--examples-per-pack", "--batch-size"},
  };
  return options;
}

const std::vector<OldCommand>& old_commands() {
  // Before 0.2.0.
  static const std::vector<OldCommand> commands = {{"fill", "fill-mask"}};
  return commands;
}

std::string command_of_now(const std::string& word) {
  for (const OldCommand& old : old_commands())
    if (word == old.old_name) return old.name;
  return word;
}

void use_names_of_now(const std::string& command, std::vector<std::string>& words) {
  if (const std::string name = command.substr(0, command.find(' '));
      !name.empty() && words.back() != name && command_of_now(words.back()) == name) {
    log_info("note: {} is {} now; the old name still works\n", words.back(), name);
    words.back() = name;
  }
  std::set<std::string_view> told;
  for (std::string& word : words)
    for (const OldOption& old : old_options()) {
      if (command != old.command || word.substr(0, word.find('=')) != old.old_name) continue;
      if (told.insert(old.old_name).second)
        log_info("note: {} is {} now; the old name still works\n", old.old_name, old.name);
      word.replace(0, std::string_view(old.old_name).size(), old.name);
    }
}

}  // namespace comera::cli
