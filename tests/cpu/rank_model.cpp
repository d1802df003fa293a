#include "tests/cpu/rank_model.h"

#include "kernels/shared/philox.h"

namespace comera::test {

namespace {

struct Train {
  std::vector<std::int64_t> modes, ranks;  // ranks: one fewer
  int keeps_one = 0, needs = -1;
};

// In (-1, 1), the same for the same place.
float drawn(std::uint32_t place, std::uint32_t site) {
  const Philox4 bits = philox({{place, site, 0, 0}}, 17);
  return static_cast<float>(static_cast<double>(bits.word[0]) / 2147483648.0 - 1);
}

}  // namespace

RankModel rank_model() {
  // The first keeps one entry on each bond; then query to output, one that is removed from the start with the
  // one that needs it, one whose bonds have a single entry, and one without bonds.
  const std::vector<Train> trains = {{{6, 8, 4}, {5, 7}, 1, -1},
                                     {{3, 4, 3, 4}, {3, 33, 4}, 0, 2},
                                     {{3, 4, 3, 4}, {3, 9, 4}, 0, 3},
                                     {{3, 4, 3, 4}, {2, 6, 4}, 0, 4},
                                     {{3, 4, 3, 4}, {3, 8, 3}, 0, -1},
                                     {{5, 5}, {4}, 0, 6},
                                     {{5, 7}, {3}, 0, -1},
                                     {{4, 2, 3}, {1, 1}, 0, -1},
                                     {{11}, {}, 0, -1}};
  constexpr std::size_t dead_layer = 6;
  RankModel model;
  const auto aligned = [](std::int64_t offset) { return (offset + 15) / 16 * 16; };
  for (const Train& train : trains) {
    RankLayer layer{.first_core = static_cast<std::int32_t>(model.cores.size()),
                    .first_bond = static_cast<std::int32_t>(model.bonds.size()),
                    .bonds = static_cast<std::int32_t>(train.ranks.size()),
                    .keeps_one = train.keeps_one,
                    .needs = train.needs};
    for (std::size_t k = 0; k < train.modes.size(); ++k) {
      RankCore core{.offset = aligned(model.elements),
                    .left = k > 0 ? train.ranks[k - 1] : 1,
                    .modes = train.modes[k],
                    .right = k < train.ranks.size() ? train.ranks[k] : 1};
      model.elements = core.offset + core.elements();
      model.initial_size += static_cast<double>(core.elements());
      if (k < train.ranks.size())
        model.bonds.push_back({.offset = 0,
                               .count = static_cast<std::int32_t>(train.ranks[k]),
                               .first_entry = 0,
                               .core = static_cast<std::int32_t>(model.cores.size())});
      model.cores.push_back(core);
    }
    model.layers.push_back(layer);
  }
  model.gates_begin = model.elements = aligned(model.elements);
  std::int32_t entries = 0;
  for (RankBond& bond : model.bonds) {
    bond.offset = model.elements;
    bond.first_entry = entries;
    entries += bond.count;
    model.elements = aligned(bond.offset + bond.count);
  }
  model.gates_count = model.elements - model.gates_begin;
  model.elements += 45;                                              // neither cores nor gates
  model.values.assign(static_cast<std::size_t>(model.elements), 0);  // as the gaps between tensors are
  for (const RankCore& core : model.cores)
    for (std::int64_t i = 0; i < core.elements(); ++i)
      model.values[core.offset + i] = drawn(static_cast<std::uint32_t>(core.offset + i), 1);
  for (std::size_t b = 0; b < model.bonds.size(); ++b)
    for (std::int32_t i = 0; i < model.bonds[b].count; ++i) {
      const float d = drawn(static_cast<std::uint32_t>(i), 100 + static_cast<std::uint32_t>(b));
      const RankLayer& dead = model.layers[dead_layer];
      const bool is_dead = static_cast<std::int32_t>(b) == dead.first_bond || (i % 4 == 3 && b % 2 == 0);
      // Mostly positive; a few just beyond 0.
      model.values[model.bonds[b].offset + i] = is_dead ? 0.F : (d > -0.2F ? (d + 1) / 2 : d / 20);
    }
  // What is dead has no slices.
  for (const RankBond& bond : model.bonds)
    for (std::int32_t i = 0; i < bond.count; ++i) {
      if (model.values[bond.offset + i] != 0) continue;
      const RankCore &before = model.cores[bond.core], &behind = model.cores[bond.core + 1];
      for (std::int64_t row = 0; row < before.left * before.modes; ++row)
        model.values[before.offset + row * before.right + i] = 0;
      for (std::int64_t at = 0; at < behind.modes * behind.right; ++at)
        model.values[behind.offset + i * behind.modes * behind.right + at] = 0;
    }
  return model;
}

}  // namespace comera::test
