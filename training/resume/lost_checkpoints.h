#pragma once

#include <cstdio>
#include <string>

#include "checkpoints/checkpoint_directory.h"
#include "training/run/run_directory.h"

// A run that has saved checkpoints leaves a marker beside their folder. If the checkpoints are gone later
// (for instance, a disk is not mounted), the run is not mistaken for one that stopped before its first
// checkpoint, and does not restart.
namespace comera {

// Writes the marker, if it is missing. Called after a checkpoint has been saved or found.
void sign_saved_checkpoints(const RunDirectory& run);

// For a run's directory whose checkpoint folder is empty or missing: why there must have been checkpoints, as
// the rest of a sentence; empty if the run can restart without losing anything. For runs of versions without
// the marker, other files are the evidence.
std::string why_checkpoints_are_missed(const RunDirectory& run);

// Reports which newer checkpoints are damaged or missing, so that the run continues from an older one; called
// before the checkpoint is used.
void say_not_used(const FoundCheckpoint& found, std::FILE* output);

}  // namespace comera
