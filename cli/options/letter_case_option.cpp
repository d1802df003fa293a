#include "cli/options/letter_case_option.h"

namespace comera::cli {

void add_letter_case_options(CLI::App& command, LetterCaseOption& option) {
  CLI::Option* lower =
      command.add_flag("--lower-case", option.lower,
                       "Lowercase text and strip accents, for a vocab.txt without a tokenizer_config.json");
  command
      .add_flag("--keep-case", option.keep,
                "Keep case and accents, for a vocab.txt without a tokenizer_config.json")
      ->excludes(lower);
}

}  // namespace comera::cli
