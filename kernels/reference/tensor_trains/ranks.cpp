#include "kernels/ops/tensor_trains/ranks.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/reference/reference_backend.h"

namespace comera::reference {

namespace {

// The tables and gates of a model. `removed` is scratch: whether each layer is removed.
template <class T>
struct Ranks {
  const RankTables& tables;
  const RankLayer* layers;
  const RankCore* cores;
  const RankBond* bonds;
  const T* parameters;
  const T* importances;
  RankOrder order;
  bool* removed;

  Ranks(const RankTables& t, const Tensor& values, const Tensor& averages, RankOrder which,
        std::byte* scratch)
      : tables(t),
        layers(static_cast<const RankLayer*>(t.layers.raw())),
        cores(static_cast<const RankCore*>(t.cores.raw())),
        bonds(static_cast<const RankBond*>(t.bonds.raw())),
        parameters(values.data<T>()),
        importances(averages.data<T>()),
        order(which),
        removed(reinterpret_cast<bool*>(scratch)) {}

  double magnitude(const RankBond& bond, std::int64_t entry) const {
    return std::abs(static_cast<double>(parameters[bond.offset + entry]));
  }
  double importance(const RankBond& bond, std::int64_t entry) const {
    const double own = magnitude(bond, entry);
    if (order == RankOrder::magnitude) return own;
    return own * std::sqrt(static_cast<double>(importances[bond.first_entry + entry]));
  }
  std::int64_t live(const RankBond& bond) const {
    std::int64_t count = 0;
    for (std::int64_t i = 0; i < bond.count; ++i) count += magnitude(bond, i) > 0 ? 1 : 0;
    return count;
  }
  std::int64_t more_important(const RankBond& bond, double threshold) const {
    std::int64_t count = 0;
    for (std::int64_t i = 0; i < bond.count; ++i) count += importance(bond, i) > threshold ? 1 : 0;
    return count;
  }
  // The entry that is kept where one must be.
  std::int64_t furthest(const RankBond& bond) const {
    std::int64_t at = 0;
    for (std::int64_t i = 0; i < bond.count; ++i)
      if (std::pair(importance(bond, i), magnitude(bond, i)) >
          std::pair(importance(bond, at), magnitude(bond, at)))
        at = i;
    return at;
  }
  // The size of a model with the given number of entries in each bond; also determines which layers are
  // removed. A layer precedes those that it needs.
  template <class Count>
  double size_by(const Count& count) const {
    double size = 0;
    for (std::int64_t l = tables.layer_count; l-- > 0;) {
      const RankLayer& layer = layers[l];
      const std::int64_t own = layer_size(layer, cores, [&](int b) {
        return std::max<std::int64_t>(count(bonds[layer.first_bond + b]), layer.keeps_one);
      });
      removed[l] = own == 0 || (layer.needs >= 0 && removed[layer.needs]);
      if (!removed[l]) size += static_cast<double>(own);
    }
    return size / tables.initial_size;
  }
  double size() const {
    return size_by([this](const RankBond& bond) { return live(bond); });
  }
  double threshold(double target) const {
    return threshold_for(target, [this](double above) {
      return size_by([&](const RankBond& bond) { return more_important(bond, above); });
    });
  }
  double l1(const RankLayer& layer, int bond) const {  // 1 at both ends of the chain
    if (bond < 0 || bond >= layer.bonds) return 1;
    double sum = 0;
    const RankBond& b = bonds[layer.first_bond + bond];
    for (std::int64_t i = 0; i < b.count; ++i) sum += magnitude(b, i);
    return sum;
  }
  double modes(const RankLayer& layer, int core) const {
    return static_cast<double>(cores[layer.first_core + core].modes);
  }
};

template <class T>
std::size_t scratch_of(const T& op) {
  return static_cast<std::size_t>(op.tables.layer_count) * sizeof(bool);
}

template <class T>
void rank_objective(const RankObjective& op, const KernelContext& context) {
  const Ranks<T> ranks(op.tables, op.parameters, op.importance, op.options.order, context.scratch);
  const RankTables& tables = op.tables;
  const auto& inputs = *static_cast<const StepInputs*>(op.step_inputs.raw());
  const auto& results = *static_cast<const StepResults*>(op.results.raw());
  auto& state = *static_cast<RankState*>(op.state.raw());
  const auto* parameters = op.parameters.data<T>();
  auto* gradients = op.gradients.data<T>();
  if (results.target_count > 0)
    average_loss(op.options.smoothing,
                 results.nonfinite == 0 ? results.loss_sum / results.target_count : HUGE_VAL, state);

  for (std::int64_t b = 0; b < tables.bond_count && results.nonfinite == 0 && results.target_count > 0; ++b) {
    const RankBond& bond = ranks.bonds[b];
    T* averages = op.importance.data<T>() + bond.first_entry;
    for (std::int64_t i = 0; i < bond.count; ++i) {
      const double slope = gradients[bond.offset + i] / results.target_count;
      averages[i] =
          static_cast<T>(importance_smoothing * averages[i] + (1 - importance_smoothing) * slope * slope);
    }
  }

  double norm = 0;
  for (std::int64_t c = 0; c < tables.core_count; ++c) {
    const T* g = parameters + ranks.cores[c].offset;
    double sum = 0;
    for (std::int64_t i = 0; i < ranks.cores[c].elements(); ++i) sum += static_cast<double>(g[i]) * g[i];
    norm += sum;
  }
  state.norm_ratio = norm / tables.initial_norm;
  state.size = ranks.size();
  const bool by_size = op.options.penalty == RankPenalty::l1_size;
  double total = 0;
  std::int64_t live = 0;
  for (std::int64_t l = 0; l < tables.layer_count; ++l) {
    const RankLayer& layer = ranks.layers[l];
    if (ranks.removed[l]) continue;
    for (int k = 0; k <= layer.bonds && by_size; ++k)
      total += ranks.l1(layer, k - 1) * ranks.modes(layer, k) * ranks.l1(layer, k);
    for (int b = 0; b < layer.bonds; ++b) {
      const RankBond& bond = ranks.bonds[layer.first_bond + b];
      live += ranks.live(bond);
      for (std::int64_t i = 0; i < bond.count && !by_size; ++i) total += parameters[bond.offset + i];
    }
  }
  state.penalty =
      by_size ? total / tables.initial_size : total / static_cast<double>(std::max<std::int64_t>(live, 1));

  const RankWeights weights = rank_weights(op.options, inputs.rank_urgency, state);
  const double threshold = weights.smallest_first ? ranks.threshold(inputs.rank_target) : 0;
  // The update multiplies all gradients by it.
  const double unscaled = results.gradient_scale > 0 ? 1 / results.gradient_scale : 0;
  const double decay = 2 * op.options.beta / tables.initial_norm * unscaled;
  for (std::int64_t c = 0; c < tables.core_count && decay != 0; ++c)
    for (std::int64_t i = 0; i < ranks.cores[c].elements(); ++i)
      gradients[ranks.cores[c].offset + i] += static_cast<T>(decay) * parameters[ranks.cores[c].offset + i];
  ranks.size();  // updates which layers are removed
  for (std::int64_t l = 0; l < tables.layer_count; ++l) {
    const RankLayer& layer = ranks.layers[l];
    for (int b = 0; b < layer.bonds; ++b) {
      const RankBond& bond = ranks.bonds[layer.first_bond + b];
      const double slope = by_size ? (ranks.l1(layer, b - 1) * ranks.modes(layer, b) +
                                      ranks.modes(layer, b + 1) * ranks.l1(layer, b + 1)) /
                                         tables.initial_size
                                   : 1 / static_cast<double>(std::max<std::int64_t>(live, 1));
      const std::int64_t stays = layer.keeps_one != 0 ? ranks.furthest(bond) : -1;
      for (std::int64_t i = 0; i < bond.count; ++i) {
        const double d = parameters[bond.offset + i];
        const double weight = ranks.importance(bond, i) <= threshold || !weights.smallest_first
                                  ? weights.penalty
                                  : weights.spared;
        const bool free = d == 0 || ranks.removed[l] || i == stays;
        const double pull = free ? 0 : weight * slope * (by_size && d < 0 ? -1 : 1);
        gradients[bond.offset + i] += static_cast<T>(pull * unscaled);
      }
    }
  }
}

// The entry's slices: on the last axis of the core before the bond, and the first axis of the core after it.
template <class T>
void clear_entry(T* values, const RankBond& bond, const RankCore* cores, std::int64_t entry) {
  const RankCore &before = cores[bond.core], &behind = cores[bond.core + 1];
  values[bond.offset + entry] = 0;
  for (std::int64_t row = 0; row < before.left * before.modes; ++row)
    values[before.offset + row * before.right + entry] = 0;
  const std::int64_t slice = behind.modes * behind.right;
  std::fill_n(values + behind.offset + entry * slice, slice, T(0));
}

template <class T>
void prune_ranks(const PruneRanks& op, const KernelContext& context) {
  const Ranks<T> ranks(op.tables, op.parameters, op.importance, op.order, context.scratch);
  auto& state = *static_cast<RankState*>(op.state.raw());
  T* const flat[] = {op.parameters.data<T>(), op.moment1.data<T>(), op.moment2.data<T>()};
  std::int64_t pruned = 0;
  const auto kill = [&](const RankLayer& layer, int b, std::int64_t entry) {
    for (T* values : flat) clear_entry(values, ranks.bonds[layer.first_bond + b], ranks.cores, entry);
    ++pruned;
  };
  if (static_cast<const StepResults*>(op.results.raw())->nonfinite == 0) {
    const double target = static_cast<const StepInputs*>(op.step_inputs.raw())->rank_target;
    const double most = op.to_target ? ranks.threshold(target) : HUGE_VAL;
    const auto dies = [&](const RankBond& bond, std::int64_t i) {
      const double d = ranks.parameters[bond.offset + i];
      return d != 0 && d <= op.threshold && ranks.importance(bond, i) <= most;
    };
    for (std::int64_t l = 0; l < op.tables.layer_count; ++l) {
      const RankLayer& layer = ranks.layers[l];
      for (int b = 0; b < layer.bonds; ++b) {
        const RankBond& bond = ranks.bonds[layer.first_bond + b];
        std::int64_t stay = 0;
        for (std::int64_t i = 0; i < bond.count; ++i)
          stay += ranks.magnitude(bond, i) > 0 && !dies(bond, i) ? 1 : 0;
        const std::int64_t furthest = ranks.furthest(bond);
        const bool keeps_one = layer.keeps_one != 0 && stay == 0;
        for (std::int64_t i = 0; i < bond.count; ++i)
          if (dies(bond, i) && !(keeps_one && i == furthest)) kill(layer, b, i);
      }
    }
    ranks.size();
    for (std::int64_t l = 0; l < op.tables.layer_count; ++l)
      for (int b = 0; b < ranks.layers[l].bonds && ranks.removed[l]; ++b) {
        const RankBond& bond = ranks.bonds[ranks.layers[l].first_bond + b];
        for (std::int64_t i = 0; i < bond.count; ++i)
          if (ranks.magnitude(bond, i) > 0) kill(ranks.layers[l], b, i);
      }
  }
  state.size_left = ranks.size();
  state.pruned = static_cast<double>(pruned);
  state.live = state.removed = 0;
  for (std::int64_t l = 0; l < op.tables.layer_count; ++l) state.removed += ranks.removed[l] ? 1 : 0;
  for (std::int64_t b = 0; b < op.tables.bond_count; ++b)
    state.live += static_cast<double>(ranks.live(ranks.bonds[b]));
}

template <class T>
void register_for(Backend& backend) {
  backend.set<RankObjective>(dtype_of<T>, rank_objective<T>, scratch_of<RankObjective>);
  backend.set<PruneRanks>(dtype_of<T>, prune_ranks<T>, scratch_of<PruneRanks>);
}

}  // namespace

void register_ranks(Backend& backend) {
  register_for<float>(backend);
  register_for<double>(backend);
}

}  // namespace comera::reference
