#pragma once

#include <CLI/CLI.hpp>

#include "data/tokenizers/tokenizer.h"

namespace comera::cli {

// --lower-case and --keep-case: for a vocab.txt without a tokenizer_config.json beside it.
struct LetterCaseOption {
  bool lower = false, keep = false;
  data::LetterCase value() const {
    return lower ? data::LetterCase::lowered : keep ? data::LetterCase::kept : data::LetterCase::guessed;
  }
};

void add_letter_case_options(CLI::App& command, LetterCaseOption& option);

}  // namespace comera::cli
