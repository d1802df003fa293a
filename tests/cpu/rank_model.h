#pragma once

#include <vector>

#include "kernels/ops/ranks.h"

namespace comera::test {

// A flat model of eight trains with live, dead and negative entries of gates, without the layers around them.
struct RankModel {
  std::vector<RankLayer> layers;
  std::vector<RankCore> cores;
  std::vector<RankBond> bonds;
  std::vector<float> values;  // of all parameters: cores, gates, and something else
  std::int64_t elements = 0, gates_begin = 0, gates_count = 0;
  double initial_size = 0;
};
RankModel rank_model();

}  // namespace comera::test
