#pragma once

#include <string>

#include "checkpoints/checkpoint_file.h"
#include "recipes/recipe.h"
#include "training/resume/run_snapshot.h"

// Whether a checkpoint belongs to the run that the recipe, the data and the job describe now. A resume asks
// in this order (docs/guide/checkpoints.md has it as a drawing), and each question throws in one sentence
// that names the checkpoint and what differs:
//   1. RunSetup, before a model is made: the same recipe and command in all processes, a checkpoint that is
//      whole (find_latest) and of the same kind of model (take_ranks), its bytes the same in all processes,
//      the tokenizer or the encoding of clicks that it was trained with;
//   2. require_same_run(): what the data are, their order and the held-out data, the seed, the encoder, the
//      optimizer and the adapters, whether its length is counted in hours;
//   3. load_parameters(), load_optimizer(): every tensor's name, shape and type;
//   4. require_same_phase(): the place is one that the recipe has, with the objective and target it began
//   with;
//   5. seek_same_samples(), when the phase's data are opened: as many samples as the place was counted in.
namespace comera {

// 2. before: the checkpoint's own recipe.
void require_same_run(const CheckpointReader& reader, const Recipe& before, const RunSetup& setup);

// 4. file: the checkpoint.
void require_same_phase(const RunParts& run, const Recipe& before, const std::string& file);
// Of it: UsageError if the recipe gives a phase that has begun another objective or target.
void require_same_stage(const PhaseSection& begun, const PhaseSection& now, std::int64_t phase,
                        const std::string& file);

// 5. Moves the loader to the place.
void seek_same_samples(data::BatchStream& loader, const DataPlace& place, const std::string& file,
                       const std::string& source, std::int64_t phase, std::int64_t length);

}  // namespace comera
