#pragma once

#include <string>
#include <vector>

#include "tests/qa/attack/try.h"

namespace comera::attack {

struct Kind {
  std::string name;
  void (*attempt)(Try& own);
  // Tries of the ordinary tests, and of the long attack.
  int few = 0, many = 0;
};

// kills.cpp, faults.cpp, mutants.cpp, command_lines.cpp, jobs.cpp, pairs.cpp
void attempt_kill(Try& own);
void attempt_fault(Try& own);
void attempt_mutant(Try& own);
void attempt_command_line(Try& own);
void attempt_job(Try& own);
void attempt_pair(Try& own);

// Parts of them. product_kills.cpp, readers.cpp, mutants_exchange.cpp, mutants_tables.cpp
void kill_product(Try& own);
void read_while_written(Try& own);
void mutate_exchange(Try& own);
void mutate_metrics(Try& own);
void mutate_clicks(Try& own);
void mutate_gzip(Try& own);

inline const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all = {
      {"kills", attempt_kill, 18, 1500},      {"faults", attempt_fault, 22, 260},
      {"mutants", attempt_mutant, 56, 14000}, {"command-lines", attempt_command_line, 30, 4000},
      {"jobs", attempt_job, 3, 100},          {"pairs", attempt_pair, 10, 500}};
  return all;
}

}  // namespace comera::attack
