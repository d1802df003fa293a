#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoints/checkpoint_file.h"
#include "model/config.h"

namespace comera {

// The ranks of every tensor train at the run's start and at the end of each phase that adapted ranks.
struct StageRanks {
  std::string name;  // "start", then the phase's name
  LayerRanks ranks = {};
  friend bool operator==(const StageRanks&, const StageRanks&) = default;
};

struct RankHistory {
  std::int64_t initial_size = 0;  // S_init: elements of all TT and TTM cores with all gates live
  std::vector<StageRanks> stages = {};
  friend bool operator==(const RankHistory&, const RankHistory&) = default;
};

// "/ranks" with the attributes initial_size and stages (their number); "/ranks/<i>" with the stage's name;
// "/ranks/<i>/layers" with a list for each layer. "/ranks" may have further attributes.
void save_rank_history(CheckpointWriter& writer, const RankHistory& history);
// Empty if the file has none, like those of older versions. Throws Error if it is incomplete.
RankHistory load_rank_history(const CheckpointReader& reader);

// The ranks of the tensor trains in the file, by layer. Removed layers without cores are not listed.
LayerRanks held_ranks(const CheckpointReader& reader);  // taken from the cores' shapes; reads no values
LayerRanks live_ranks(const CheckpointReader& reader);  // without pruned ranks: gate entries that are 0

}  // namespace comera
