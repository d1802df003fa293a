#pragma once

#include <string>

#include "reports/checkpoint_ranks.h"

namespace comera {

// A table of every tensor train: its modes, its ranks at the start, after each phase that adapted them and
// now, and its size; then the totals over the layers and the whole model.
std::string rank_report(const CheckpointRanks& state);

// Two checkpoints side by side, layer by layer and in all, counting live ranks only.
std::string rank_comparison(const CheckpointRanks& a, const CheckpointRanks& b);

}  // namespace comera
