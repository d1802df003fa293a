#pragma once

#include <cstdio>
#include <string>

#include "checkpoints/checkpoint_directory.h"
#include "training/run/run_directory.h"

// A run that has saved checkpoints says so beside their folder, so that one whose checkpoints are gone (a
// disk that is not mounted) is not taken for one that was stopped before its first, and begun anew.
namespace comera {

// Leaves that sign, if it is not there yet. After a checkpoint has been saved or found.
void sign_saved_checkpoints(const RunDirectory& run);

// Of a run's directory whose folder of checkpoints is empty or missing: why there must have been some, as the
// rest of a sentence; empty if the run can begin anew and nothing is lost. Runs of versions without the sign
// are told by what else they left.
std::string why_checkpoints_are_missed(const RunDirectory& run);

// Says which newer checkpoints are damaged or missing, so that the run goes on from an older one; before
// anything else is done with it.
void say_not_used(const FoundCheckpoint& found, std::FILE* output);

}  // namespace comera
