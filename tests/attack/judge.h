#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tests/attack/child.h"

// The only code that decides what the program may do under bad conditions and with bad input.
namespace comera::attack {

struct Allowed {
  bool success = true;  // exit code 0
  bool refusal = true;  // exit code 1 or 2 and one sentence
  // A refusal's sentence has one of these: the file, folder, key or option that is to blame. Empty: any.
  std::vector<std::string> names = {};
  bool unheard = false;  // its stderr cannot be read, so that there may be no sentence
  bool loader = false;   // the system's loader may fail before the program starts
};

// "" if the program did something allowed, otherwise the fault, in one line.
std::string fault_in(const Ending& ending, const Allowed& allowed);

// The line that begins with "comera: error: "; "" without one.
std::string sentence_of(const std::string& err);

// The first non-finite number in a program's output (nan, inf, null where a number belongs), with the text
// before it; "" if there is none.
std::string nonfinite_in(std::string_view text);
// The same of every file that a run or an inference command wrote there: metrics.jsonl, *.tsv, *.jsonl, *.h5
// with vectors.
std::string nonfinite_result(const fs::path& file);

}  // namespace comera::attack
