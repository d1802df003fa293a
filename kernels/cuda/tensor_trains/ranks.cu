// The objective of rank adaptation, and the pruning of gates. Decisions about the whole model are made by one
// block: there are about a thousand gate entries.

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/vector.h"
#include "kernels/ops/tensor_trains/ranks.h"

namespace comera::COMERA_CUDA {

namespace {

constexpr int threads = 256;
constexpr int norm_pieces = 16;  // blocks for each core

struct Tables {
  const RankLayer* layers;
  const RankCore* cores;
  const RankBond* bonds;
  int layer_count, core_count, bond_count;
  double initial_size, initial_norm;
};

Tables tables_of(const RankTables& tables) {
  return {static_cast<const RankLayer*>(tables.layers.raw()),
          static_cast<const RankCore*>(tables.cores.raw()),
          static_cast<const RankBond*>(tables.bonds.raw()),
          static_cast<int>(tables.layer_count),
          static_cast<int>(tables.core_count),
          static_cast<int>(tables.bond_count),
          tables.initial_size,
          tables.initial_norm};
}

std::size_t shared_bytes_of(const RankTables& tables) {
  const auto bonds = static_cast<std::size_t>(tables.bond_count),
             layers = static_cast<std::size_t>(tables.layer_count);
  return (threads / warp + bonds + layers) * sizeof(double) + (bonds + layers) * sizeof(int);
}

// The model as one block sees it, in shared memory.
struct Ranks {
  const Tables& tables;
  const float* parameters;
  const double* importances;  // of all entries
  double* sums;               // of warps
  double* l1;                 // (bonds)
  double* sizes;              // (layers): of each alone, 0 if one of its bonds has no live entry
  int* counts;                // (bonds)
  int* removed;               // (layers): whether it, or one that it needs, is removed

  __device__ Ranks(const Tables& t, const float* values, const double* known)
      : tables(t), parameters(values), importances(known) {
    const std::size_t doubles = threads / warp + t.bond_count + t.layer_count;
    sums = reinterpret_cast<double*>(
        shared_array<unsigned char>(doubles * sizeof(double) + (t.bond_count + t.layer_count) * sizeof(int)));
    l1 = sums + threads / warp;
    sizes = l1 + t.bond_count;
    counts = reinterpret_cast<int*>(sizes + t.layer_count);
    removed = counts + t.bond_count;
  }

  __device__ double magnitude(const RankBond& bond, int entry) const {
    return fabs(static_cast<double>(parameters[bond.offset + entry]));
  }
  __device__ double importance(const RankBond& bond, int entry) const {
    return importances[bond.first_entry + entry];
  }
  // The entry that is kept where one must be.
  __device__ int furthest(const RankBond& bond) const {
    int at = 0;
    for (int i = 0; i < bond.count; ++i) {
      const double own = importance(bond, i), best = importance(bond, at);
      if (own > best || (own == best && magnitude(bond, i) > magnitude(bond, at))) at = i;
    }
    return at;
  }

  // From `counts`, in every thread: the size, and which layers are removed.
  __device__ double size_by_counts() const {
    __syncthreads();
    for (int l = static_cast<int>(threadIdx.x); l < tables.layer_count; l += threads) {
      const RankLayer layer = tables.layers[l];
      sizes[l] = static_cast<double>(layer_size(layer, tables.cores, [&](int b) -> std::int64_t {
        return max(counts[layer.first_bond + b], layer.keeps_one);
      }));
    }
    __syncthreads();
    double own = 0;
    for (int l = static_cast<int>(threadIdx.x); l < tables.layer_count; l += threads) {
      removed[l] = 0;
      for (int needed = l; needed >= 0; needed = tables.layers[needed].needs)
        if (sizes[needed] == 0) removed[l] = 1;
      if (removed[l] == 0) own += sizes[l];
    }
    return block_sum(own, sums) / tables.initial_size;  // and `removed` is written
  }

  // The size if only these entries of each bond are counted.
  template <class Counted>
  __device__ double size_by(const Counted& counted) const {
    for (int b = static_cast<int>(threadIdx.x); b < tables.bond_count; b += threads) {
      const RankBond bond = tables.bonds[b];
      int count = 0;
      for (int i = 0; i < bond.count; ++i) count += counted(bond, i) ? 1 : 0;
      counts[b] = count;
    }
    return size_by_counts();
  }
  __device__ double size() const {
    return size_by([this](const RankBond& bond, int i) { return magnitude(bond, i) > 0; });
  }
  __device__ double threshold(double target) const {
    return threshold_for(target, [this](double above) {
      return size_by([&](const RankBond& bond, int i) { return importance(bond, i) > above; });
    });
  }

  __device__ double l1_of(const RankLayer& layer, int bond) const {  // 1 at both ends of the chain
    return bond < 0 || bond >= layer.bonds ? 1 : l1[layer.first_bond + bond];
  }
  __device__ double modes_of(const RankLayer& layer, int core) const {
    return static_cast<double>(tables.cores[layer.first_core + core].modes);
  }
};

// Each block sums every 16th part of a core's squares: (cores, pieces).
__global__ void __launch_bounds__(threads)
    core_norms(const float* parameters, const RankCore* cores, double* partial) {
  auto* scratch = shared_array<double>(threads / warp);
  const RankCore core = cores[blockIdx.x];
  const std::int64_t count = core.elements();
  const float* g = parameters + core.offset;
  double sum = 0;
  for (std::int64_t i = std::int64_t{blockIdx.y} * threads + threadIdx.x; i < count;
       i += norm_pieces * threads)
    sum += static_cast<double>(g[i]) * g[i];
  sum = block_sum(sum, scratch);
  if (threadIdx.x == 0) partial[blockIdx.x * norm_pieces + blockIdx.y] = sum;
}

// One warp per bond: the importance of its entries, by the order.
__global__ void __launch_bounds__(warp)
    gate_importances(const RankBond* bonds, RankOrder order, const float* parameters, const float* averages,
                     double* importances) {
  const RankBond bond = bonds[blockIdx.x];
  for (int i = static_cast<int>(threadIdx.x); i < bond.count; i += warp) {
    const double d = fabs(static_cast<double>(parameters[bond.offset + i])),
                 average = averages[bond.first_entry + i];
    importances[bond.first_entry + i] = order == RankOrder::magnitude ? d : d * sqrt(average);
  }
}

// One warp per bond: adds the squared derivatives of the loss to their average, before penalties are added.
__global__ void __launch_bounds__(warp) average_squares(const RankBond* bonds, const float* gradients,
                                                        float* averages, const StepResults* results) {
  if (results->nonfinite != 0 || results->target_count <= 0) return;
  const RankBond bond = bonds[blockIdx.x];
  float* own = averages + bond.first_entry;
  for (int i = static_cast<int>(threadIdx.x); i < bond.count; i += warp) {
    const double slope = gradients[bond.offset + i] / results->target_count;
    own[i] = static_cast<float>(importance_smoothing * own[i] + (1 - importance_smoothing) * slope * slope);
  }
}

// A launch with one warp per bond; there is at least one bond.
LaunchShape warp_per_bond(const RankTables& tables) { return {.grid = {tables.bond_count}, .threads = warp}; }

// The results of the decision about the whole model.
struct Decision {
  RankWeights weights;
  double threshold = 0;  // for the entries that have to be pruned
};

struct Objective {
  Tables tables;
  RankObjectiveOptions options;
  const float* parameters;
  const double* importances;
  const StepInputs* inputs;
  const StepResults* results;
  RankState* state;
  const double* partial_norms;
  Decision* decision;  // out
  double* slopes;      // out (bonds): of the penalty, 0 in a removed layer
  int* stays;          // out (bonds): the entry that cannot be pruned, or -1
};

// One block: norms, sizes and the branch.
__global__ void __launch_bounds__(threads) rank_objective_kernel(Objective op) {
  const Ranks ranks(op.tables, op.parameters, op.importances);
  const Tables& tables = op.tables;
  const bool by_size = op.options.penalty == RankPenalty::l1_size;
  double norm = 0;
  for (int i = static_cast<int>(threadIdx.x); i < tables.core_count * norm_pieces; i += threads)
    norm += op.partial_norms[i];
  norm = block_sum(norm, ranks.sums);
  const double size = ranks.size();
  for (int b = static_cast<int>(threadIdx.x); b < tables.bond_count; b += threads) {
    const RankBond bond = tables.bonds[b];
    double sum = 0;
    for (int i = 0; i < bond.count; ++i) sum += ranks.magnitude(bond, i);
    ranks.l1[b] = sum;
  }
  __syncthreads();
  double total = 0, entries = 0;
  for (int l = static_cast<int>(threadIdx.x); l < tables.layer_count; l += threads) {
    const RankLayer layer = tables.layers[l];
    if (ranks.removed[l] != 0) continue;
    for (int k = 0; k <= layer.bonds && by_size; ++k)
      total += ranks.l1_of(layer, k - 1) * ranks.modes_of(layer, k) * ranks.l1_of(layer, k);
    for (int b = 0; b < layer.bonds; ++b) {
      entries += ranks.counts[layer.first_bond + b];
      const RankBond bond = tables.bonds[layer.first_bond + b];
      for (int i = 0; i < bond.count && !by_size; ++i) total += op.parameters[bond.offset + i];
    }
  }
  total = block_sum(total, ranks.sums);
  const double live = max(block_sum(entries, ranks.sums), 1.0);
  for (int l = static_cast<int>(threadIdx.x); l < tables.layer_count; l += threads) {
    const RankLayer layer = tables.layers[l];
    for (int b = 0; b < layer.bonds; ++b) {
      double slope = by_size ? ranks.l1_of(layer, b - 1) * ranks.modes_of(layer, b) +
                                   ranks.modes_of(layer, b + 1) * ranks.l1_of(layer, b + 1)
                             : 1.0;
      slope /= by_size ? tables.initial_size : live;
      op.slopes[layer.first_bond + b] = ranks.removed[l] != 0 ? 0 : slope;
      op.stays[layer.first_bond + b] =
          layer.keeps_one != 0 ? ranks.furthest(tables.bonds[layer.first_bond + b]) : -1;
    }
  }
  if (threadIdx.x == 0) {
    RankState& state = *op.state;
    if (op.results->target_count > 0)
      average_loss(op.options.smoothing,
                   op.results->nonfinite == 0 ? op.results->loss_sum / op.results->target_count : HUGE_VAL,
                   state);
    state.norm_ratio = norm / tables.initial_norm;
    state.size = size;
    state.penalty = total / (by_size ? tables.initial_size : live);
    op.decision->weights = rank_weights(op.options, op.inputs->rank_urgency, state);
  }
  __syncthreads();
  const bool smallest_first = op.decision->weights.smallest_first;
  const double threshold = smallest_first ? ranks.threshold(op.inputs->rank_target) : 0;
  if (threadIdx.x == 0) op.decision->threshold = threshold;
}

// The factor for penalties that cancels the update's gradient_scale.
__device__ __forceinline__ double unscaled(const StepResults* results) {
  return results->gradient_scale > 0 ? 1 / results->gradient_scale : 0;
}

// One warp per bond: the gradients of its gate.
__global__ void __launch_bounds__(warp)
    gate_gradients(const RankBond* bonds, const double* slopes, const int* stays, const Decision* decision,
                   bool by_size, const float* parameters, const double* importances, float* gradients,
                   const StepResults* results) {
  const RankBond bond = bonds[blockIdx.x];
  const RankWeights weights = decision->weights;
  const double slope = slopes[blockIdx.x] * unscaled(results), threshold = decision->threshold;
  for (int i = static_cast<int>(threadIdx.x); i < bond.count; i += warp) {
    const double d = parameters[bond.offset + i];
    const bool pulled = !weights.smallest_first || importances[bond.first_entry + i] <= threshold;
    const bool free = d == 0 || i == stays[blockIdx.x];
    const double weight = free ? 0 : pulled ? weights.penalty : weights.spared;
    gradients[bond.offset + i] += static_cast<float>(weight * slope * (by_size && d < 0 ? -1 : 1));
  }
}

// The gradient of the cores' norm.
__global__ void __launch_bounds__(threads)
    core_gradients(const float* parameters, float* gradients, std::int64_t count, double decay,
                   const StepResults* results) {
  const auto weight = static_cast<float>(decay * unscaled(results));
  const std::int64_t step = std::int64_t{gridDim.x} * threads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * threads + threadIdx.x; i < count; i += step)
    gradients[i] += weight * parameters[i];
}

std::size_t rank_objective_scratch(const RankObjective& op) {
  const std::int64_t numbers = op.tables.core_count * norm_pieces + op.tables.entries + op.tables.bond_count;
  return static_cast<std::size_t>(numbers) * sizeof(double) + sizeof(Decision) +
         static_cast<std::size_t>(op.tables.bond_count) * sizeof(int);
}

void rank_objective(const RankObjective& op, const KernelContext& context) {
  auto* partial = reinterpret_cast<double*>(context.scratch);
  double* importances = partial + op.tables.core_count * norm_pieces;
  double* slopes = importances + op.tables.entries;
  auto* decision = reinterpret_cast<Decision*>(slopes + op.tables.bond_count);
  auto* stays = reinterpret_cast<int*>(decision + 1);
  const Tables tables = tables_of(op.tables);
  const auto* results = static_cast<const StepResults*>(op.results.raw());
  if (op.tables.core_count > 0)
    COMERA_LAUNCH(context.stream,
                  (LaunchShape{.grid = {op.tables.core_count, norm_pieces},
                               .threads = threads,
                               .shared_bytes = threads / warp * sizeof(double)}),
                  core_norms, op.parameters.data<float>(), tables.cores, partial);
  if (op.tables.bond_count > 0) {
    COMERA_LAUNCH(context.stream, warp_per_bond(op.tables), average_squares, tables.bonds,
                  op.gradients.data<float>(), op.importance.data<float>(), results);
    COMERA_LAUNCH(context.stream, warp_per_bond(op.tables), gate_importances, tables.bonds, op.options.order,
                  op.parameters.data<float>(), op.importance.data<float>(), importances);
  }
  const Objective objective{tables,
                            op.options,
                            op.parameters.data<float>(),
                            importances,
                            static_cast<const StepInputs*>(op.step_inputs.raw()),
                            results,
                            static_cast<RankState*>(op.state.raw()),
                            partial,
                            decision,
                            slopes,
                            stays};
  COMERA_LAUNCH(context.stream, (LaunchShape{.threads = threads, .shared_bytes = shared_bytes_of(op.tables)}),
                rank_objective_kernel, objective);
  const auto* decided = static_cast<const Decision*>(decision);
  if (op.tables.bond_count > 0)
    COMERA_LAUNCH(context.stream, warp_per_bond(op.tables), gate_gradients, tables.bonds,
                  static_cast<const double*>(slopes), static_cast<const int*>(stays), decided,
                  op.options.penalty == RankPenalty::l1_size, op.parameters.data<float>(),
                  static_cast<const double*>(importances), op.gradients.data<float>(), results);
  if (op.cores_end == 0 || op.options.beta == 0) return;
  constexpr std::int64_t most_blocks = 8192;
  COMERA_LAUNCH(
      context.stream,
      (LaunchShape{.grid = {std::min(blocks_for(op.cores_end, threads), most_blocks)}, .threads = threads}),
      core_gradients, op.parameters.data<float>(), op.gradients.data<float>(), op.cores_end,
      2 * op.options.beta / op.tables.initial_norm, results);
}

// One block: decides which entries are pruned, and counts the rest.
__global__ void __launch_bounds__(threads)
    choose_dying(Tables tables, const float* parameters, const double* importances, double threshold,
                 bool to_target, const StepInputs* inputs, const StepResults* results, RankState* state,
                 unsigned char* dying) {
  const Ranks ranks(tables, parameters, importances);
  const bool finite = results->nonfinite == 0;
  const double most = finite && to_target ? ranks.threshold(inputs->rank_target) : HUGE_VAL;
  for (int l = static_cast<int>(threadIdx.x); l < tables.layer_count; l += threads) {
    const RankLayer layer = tables.layers[l];
    for (int b = 0; b < layer.bonds; ++b) {
      const RankBond bond = tables.bonds[layer.first_bond + b];
      int stay = 0;
      for (int i = 0; i < bond.count; ++i) {
        const double d = parameters[bond.offset + i];
        const bool dies = finite && d != 0 && d <= threshold && ranks.importance(bond, i) <= most;
        dying[bond.first_entry + i] = dies ? 1 : 0;
        stay += d != 0 && !dies ? 1 : 0;
      }
      const int furthest = ranks.furthest(bond);
      if (layer.keeps_one != 0 && stay == 0 && bond.count > 0 && dying[bond.first_entry + furthest] != 0) {
        dying[bond.first_entry + furthest] = 0;
        stay = 1;
      }
      ranks.counts[layer.first_bond + b] = stay;
    }
  }
  const double size = ranks.size_by_counts();
  double live = 0, removed = 0, pruned = 0;
  for (int l = static_cast<int>(threadIdx.x); l < tables.layer_count; l += threads) {
    const RankLayer layer = tables.layers[l];
    removed += ranks.removed[l];
    for (int b = 0; b < layer.bonds; ++b) {
      const RankBond bond = tables.bonds[layer.first_bond + b];
      for (int i = 0; i < bond.count; ++i) {
        unsigned char& dies = dying[bond.first_entry + i];
        const bool lives = parameters[bond.offset + i] != 0;
        if (finite && ranks.removed[l] != 0) dies = lives ? 1 : 0;
        pruned += dies;
        live += lives && dies == 0 ? 1 : 0;
      }
    }
  }
  live = block_sum(live, ranks.sums);
  removed = block_sum(removed, ranks.sums);
  pruned = block_sum(pruned, ranks.sums);
  if (threadIdx.x > 0) return;
  state->size_left = size;
  state->live = live;
  state->removed = removed;
  state->pruned = pruned;
}

struct Flat {
  float* at[3];  // parameters and moments
};

// A block per bond and part of its slices: clears the slices of pruned entries, on the last axis of the core
// before the bond and the first axis of the core after it. Elements that both bonds of a core clear are
// cleared by the second.
__global__ void __launch_bounds__(threads)
    clear_dying(const RankBond* bonds, int bond_count, const RankCore* cores, const unsigned char* dying,
                Flat flat) {
  const RankBond bond = bonds[blockIdx.x];
  const RankCore before = cores[bond.core], behind = cores[bond.core + 1];
  const std::int64_t rows = before.left * before.modes, slice = behind.modes * behind.right;
  const std::int64_t first = std::int64_t{blockIdx.y} * threads + threadIdx.x;
  const std::int64_t step = std::int64_t{gridDim.y} * threads;
  const int next = static_cast<int>(blockIdx.x) + 1;
  const unsigned char* dying_next = nullptr;
  if (next < bond_count && bonds[next].core == bond.core + 1) dying_next = dying + bonds[next].first_entry;
  for (int i = 0; i < bond.count; ++i) {
    if (dying[bond.first_entry + i] == 0) continue;
    for (float* values : flat.at) {
      if (first == 0) values[bond.offset + i] = 0;
      for (std::int64_t row = first; row < rows; row += step)
        values[before.offset + row * before.right + i] = 0;
      for (std::int64_t at = first; at < slice; at += step)
        if (dying_next == nullptr || dying_next[at % behind.right] == 0)
          values[behind.offset + i * slice + at] = 0;
    }
  }
}

std::size_t prune_ranks_scratch(const PruneRanks& op) {
  return static_cast<std::size_t>(std::max<std::int64_t>(op.tables.entries, 1)) * (sizeof(double) + 1);
}

void prune_ranks(const PruneRanks& op, const KernelContext& context) {
  auto* importances = reinterpret_cast<double*>(context.scratch);
  auto* dying = reinterpret_cast<unsigned char*>(importances + op.tables.entries);
  const Tables tables = tables_of(op.tables);
  if (op.tables.bond_count > 0)
    COMERA_LAUNCH(context.stream, warp_per_bond(op.tables), gate_importances, tables.bonds, op.order,
                  op.parameters.data<float>(), op.importance.data<float>(), importances);
  COMERA_LAUNCH(context.stream, (LaunchShape{.threads = threads, .shared_bytes = shared_bytes_of(op.tables)}),
                choose_dying, tables, op.parameters.data<float>(), static_cast<const double*>(importances),
                op.threshold, op.to_target, static_cast<const StepInputs*>(op.step_inputs.raw()),
                static_cast<const StepResults*>(op.results.raw()), static_cast<RankState*>(op.state.raw()),
                dying);
  if (op.tables.bond_count == 0) return;
  constexpr std::int64_t parts = 4;
  COMERA_LAUNCH(context.stream, (LaunchShape{.grid = {op.tables.bond_count, parts}, .threads = threads}),
                clear_dying, tables.bonds, tables.bond_count, tables.cores,
                static_cast<const unsigned char*>(dying),
                (Flat{{op.parameters.data<float>(), op.moment1.data<float>(), op.moment2.data<float>()}}));
}

}  // namespace

void register_ranks(Backend& backend, bool /*tf32*/) {
  backend.set<RankObjective>(DType::float32, rank_objective, rank_objective_scratch);
  backend.set<PruneRanks>(DType::float32, prune_ranks, prune_ranks_scratch);
}

}  // namespace comera::COMERA_CUDA
