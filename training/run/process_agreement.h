#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "distributed/communicator.h"
#include "recipes/recipe.h"

// Everything in which the processes of a job are compared. All processes call each of these, in the same
// order. Where one differs from process 0, all throw the same sentence, which names it and what differs: a
// UsageError but for models. A process that is alone agrees with itself.
namespace comera {

void require_same_recipe(Communicator& processes, const Recipe& recipe);
// What the command line says besides.
void require_same_command(Communicator& processes, const std::string& words);
// What each would compute on, and with.
void require_same_processor(Communicator& processes, const std::string& backend,
                            const std::string& instruction_set);

// A file that a process reads: machines may hold different files of the same name.
struct GivenFile {
  std::string key;      // of the recipe that names it: "data.train"
  std::string path;     // the same on all processes
  std::string content;  // a fingerprint of what is in it
};
// Of several contents in their order; of one, its own; empty of none.
std::string fingerprint_of_all(const std::vector<std::string>& contents);
void require_same_files(Communicator& processes, const std::vector<GivenFile>& files);

// Error: processes that make the same steps from the same sums have the same model.
void require_same_model(Communicator& processes, std::int64_t step, const std::string& hash);

}  // namespace comera
