#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/training/finetune_task.h"

namespace comera::cli {

// "3" is 1, 2, 3; "1,4" is 1 and 4. UsageError for anything but that many, or different, positive seeds.
std::vector<std::int64_t> seeds_of(const std::vector<std::int64_t>& given);

// Fine-tunes with one seed after the other, in OUTPUT/seed-N, and prints a table with the mean and deviation
// of the best models' scores, which is also in OUTPUT/seeds.txt and seeds.json. The same call continues after
// a stop. UsageError if the folder has results of another model, other data or other settings.
void finetune_seeds(const FinetuneOptions& options, const std::vector<std::int64_t>& seeds,
                    Communicator& communicator, StopSignals& signals);

}  // namespace comera::cli
