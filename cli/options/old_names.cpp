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

void use_names_of_now(const std::string& command, std::vector<std::string>& words) {
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
