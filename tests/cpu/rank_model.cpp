#include "tests/cpu/rank_model.h"

#include "kernels/shared/philox.h"

namespace comera::test {

namespace {

struct Train {
  std::vector<std::int64_t> modes, ranks;  // ranks: one fewer
  int keeps_one = 0, needs = -1;
};

// In (-1, 1), the same for the same arguments.
float drawn(std::uint32_t place, std::uint32_t site) {
  const Philox4 bits = philox({{place, site, 0, 0}}, 17);
  return static_cast<float>(static_cast<double>(bits.word[0]) / 2147483648.0 - 1);
}

// All gates of the dead layer, if there is one, are 0.
RankModel model_of(const std::vector<Train>& trains, std::size_t dead_layer) {
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
      const bool in_dead_layer =
          dead_layer < trains.size() && static_cast<std::int32_t>(b) == model.layers[dead_layer].first_bond;
      const bool is_dead = in_dead_layer || (i % 4 == 3 && b % 2 == 0);
      // Mostly positive; a few just beyond 0.
      model.values[model.bonds[b].offset + i] = is_dead ? 0.F : (d > -0.2F ? (d + 1) / 2 : d / 20);
    }
  // Pruned entries have zero slices.
  for (const RankBond& bond : model.bonds)
    for (std::int32_t i = 0; i < bond.count; ++i) {
      if (model.values[bond.offset + i] != 0) continue;
      const RankCore &before = model.cores[bond.core], &behind = model.cores[bond.core + 1];
      for (std::int64_t row = 0; row < before.left * before.modes; ++row)
        model.values[before.offset + row * before.right + i] = 0;
      for (std::int64_t at = 0; at < behind.modes * behind.right; ++at)
        model.values[behind.offset + i * behind.modes * behind.right + at] = 0;
    }
  for (std::int64_t i = 0; i < model.gates_count; ++i) {
    const auto root = static_cast<float>((i * 37 + 11) % 101) / 40;
    model.importance.push_back(i % 13 == 5 ? 0 : root * root);
  }
  return model;
}

constexpr std::size_t none = 1000;

}  // namespace

RankModel rank_model() {
  // The first keeps one entry on each bond; then query to output, one that is removed from the start with the
  // one that needs it, one whose bonds have a single entry, and one without bonds.
  return model_of({{{6, 8, 4}, {5, 7}, 1, -1},
                   {{3, 4, 3, 4}, {3, 33, 4}, 0, 2},
                   {{3, 4, 3, 4}, {3, 9, 4}, 0, 3},
                   {{3, 4, 3, 4}, {2, 6, 4}, 0, 4},
                   {{3, 4, 3, 4}, {3, 8, 3}, 0, -1},
                   {{5, 5}, {4}, 0, 6},
                   {{5, 7}, {3}, 0, -1},
                   {{4, 2, 3}, {1, 1}, 0, -1},
                   {{11}, {}, 0, -1}},
                  6);
}

RankModel keeping_rank_model() {
  RankModel model = model_of({{{6, 3, 5, 3856}, {16, 3, 1}, 1, -1}}, none);
  const auto set = [&](std::size_t bond, std::int32_t entry, float gate, float square) {
    model.values[model.bonds[bond].offset + entry] = gate;
    model.importance[model.bonds[bond].first_entry + entry] = square;
  };
  // The importance is the gate times the root of its square; after a bond's entries follow more important
  // ones.
  for (std::int32_t i = 0; i < 16; ++i) set(0, i, 0.05F + 0.005F * static_cast<float>(i), 0.25F);
  set(1, 0, 0.25F, 1), set(1, 1, 0.5F, 0.25F), set(1, 2, 0.125F, 4);
  set(2, 0, 0.3F, 2.25F);
  return model;
}

RankModel one_bond_rank_model() { return model_of({{{5, 7}, {3}, 0, -1}}, none); }

RankModel no_bond_rank_model() { return model_of({{{11}, {}, 0, -1}}, none); }

RankModel empty_rank_model() {
  RankModel model = model_of({}, none);
  model.initial_size = 1;  // normalisation constants
  return model;
}

}  // namespace comera::test
