#include "cli/options/letter_case_option.h"

namespace comera::cli {

void add_letter_case_options(CLI::App& command, LetterCaseOption& option) {
  CLI::Option* lower = command.add_flag(
      "--lower-case", option.lower,
      "Of a vocab.txt without a tokenizer_config.json: put text into lower case, without accents");
  command
      .add_flag("--keep-case", option.keep,
                "Of a vocab.txt without a tokenizer_config.json: take text as it is")
      ->excludes(lower);
}

}  // namespace comera::cli
