#pragma once

#include <CLI/CLI.hpp>

#include "data/tokenizers/tokenizer.h"

namespace comera::cli {

// --lower-case and --keep-case: what a vocab.txt is of that no tokenizer_config.json lies beside.
struct LetterCaseOption {
  bool lower = false, keep = false;
  data::LetterCase value() const {
    return lower ? data::LetterCase::lowered : keep ? data::LetterCase::kept : data::LetterCase::guessed;
  }
};

void add_letter_case_options(CLI::App& command, LetterCaseOption& option);

}  // namespace comera::cli
