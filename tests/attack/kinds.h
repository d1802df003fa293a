#pragma once

#include <string>
#include <vector>

#include "tests/attack/try.h"

namespace comera::attack {

struct Kind {
  std::string name;
  void (*attempt)(Try& own);
  // Tries of the ordinary tests, and of the long attack.
  int few = 0, many = 0;
};

// kills.cpp, faults.cpp, mutants.cpp, command_lines.cpp, jobs.cpp
void attempt_kill(Try& own);
void attempt_fault(Try& own);
void attempt_mutant(Try& own);
void attempt_command_line(Try& own);
void attempt_job(Try& own);

inline const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all = {{"kills", attempt_kill, 12, 1000},
                                        {"faults", attempt_fault, 17, 200},
                                        {"mutants", attempt_mutant, 40, 10000},
                                        {"command-lines", attempt_command_line, 30, 4000},
                                        {"jobs", attempt_job, 3, 100}};
  return all;
}

}  // namespace comera::attack
