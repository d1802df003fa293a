#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "distributed/communicator.h"
#include "recipes/recipe.h"

// Comparisons between the processes of a job. All processes call each of these, in the same order. If a
// process differs from process 0, all throw the same sentence, which names the process and the difference: a
// UsageError, except for models. A single process passes every comparison.
namespace comera {

void require_same_recipe(Communicator& processes, const Recipe& recipe);
// Compares the rest of the command line.
void require_same_command(Communicator& processes, const std::string& words);
// Compares backend and processor.
void require_same_processor(Communicator& processes, const std::string& backend,
                            const std::string& instruction_set);

// A file that a process reads: machines may hold different files with the same name.
struct GivenFile {
  std::string key;      // of the recipe key that names it: "data.train"
  std::string path;     // the same on all processes
  std::string content;  // a fingerprint of its content
};
// A fingerprint of several contents in order; for one, the content itself; empty for none.
std::string fingerprint_of_all(const std::vector<std::string>& contents);
void require_same_files(Communicator& processes, const std::vector<GivenFile>& files);

// Error: processes that make the same steps from the same sums must have the same model.
void require_same_model(Communicator& processes, std::int64_t step, const std::string& hash);

}  // namespace comera
