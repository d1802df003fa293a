#pragma once

#include <vector>

#include "kernels/ops/ranks.h"

namespace comera::test {

// Tensor trains as a flat model, without the layers around them.
struct RankModel {
  std::vector<RankLayer> layers;
  std::vector<RankCore> cores;
  std::vector<RankBond> bonds;
  std::vector<float> values;      // of all parameters: cores, gates, and something else
  std::vector<float> importance;  // of the gates' entries: squares, some of them 0, as where nothing is known
  std::int64_t elements = 0, gates_begin = 0, gates_count = 0;
  double initial_size = 0;
};

// Nine tensor trains with live, pruned and negative gate entries.
RankModel rank_model();
// One that keeps an entry on each bond: the last of many, the middle one of three alike, the only one. Its
// gates follow each other without gaps where they can, and its last core is large.
RankModel keeping_rank_model();
RankModel one_bond_rank_model();
RankModel no_bond_rank_model();
RankModel empty_rank_model();

}  // namespace comera::test
