// The left and right factors of tensor trains and their gradients. Each takes a few small products:
// independent ones of all tensor trains of the operation share a launch. Gates are multiplied in when cores
// are read.

#include <algorithm>

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/products/grouped.h"
#include "kernels/cuda/products/small_products.h"
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/tensor_trains/scale_columns.h"
#include "kernels/cuda/vector.h"
#include "kernels/ops/tensor_trains/tt_factors.h"

namespace comera::COMERA_CUDA {

namespace {

constexpr int threads = 256;

// dcore += dgated gate; dgate += column sums of dgated core. Without a gate: dcore += dgated.
struct CoreGradient {
  const float *dgated = nullptr, *core = nullptr, *gate = nullptr;
  float *dcore = nullptr, *dgate = nullptr;
  int rows = 0, columns = 0;
  int ld = 0;  // of dgated
};
constexpr int row_groups = 32;   // one per warp
constexpr int rows_at_once = 4;  // per warp

// A block has 32 columns of one core.
template <int most>
__global__ void __launch_bounds__(warp* row_groups)
    core_gradients_kernel(const Grouped<CoreGradient, most> __grid_constant__ gradients) {
  auto* sums = shared_array<float>(warp * row_groups);
  const auto [op, block] = piece_of_block(gradients);
  const int column = block * warp + lane_of_thread();
  float sum = 0;
  if (column < op.columns) {
    const float gate = op.gate != nullptr ? op.gate[column] : 1.F;
    for (int first = warp_of_thread() * rows_at_once; first < op.rows; first += row_groups * rows_at_once) {
      float dgated[rows_at_once], core[rows_at_once], dcore[rows_at_once];
#pragma unroll
      for (int i = 0; i < rows_at_once; ++i) {
        const bool exists = first + i < op.rows;
        const std::int64_t at = std::int64_t{first + i} * op.columns + column;
        dgated[i] = exists ? op.dgated[std::int64_t{first + i} * op.ld + column] : 0.F;
        core[i] = exists ? op.core[at] : 0.F;
        dcore[i] = exists ? op.dcore[at] : 0.F;
      }
#pragma unroll
      for (int i = 0; i < rows_at_once; ++i) {
        if (first + i >= op.rows) continue;
        op.dcore[std::int64_t{first + i} * op.columns + column] = dcore[i] + dgated[i] * gate;
        sum += dgated[i] * core[i];
      }
    }
  }
  sums[threadIdx.x] = sum;
  __syncthreads();
  if (warp_of_thread() > 0 || column >= op.columns || op.dgate == nullptr) return;
  for (int group = 1; group < row_groups; ++group) sum += sums[group * warp + lane_of_thread()];
  op.dgate[column] += sum;
}

// A region that no product writes: `to` (rows, columns), with row stride ld, becomes `from`, or zero without
// one.
struct Region {
  float* to = nullptr;
  const float* from = nullptr;
  int rows = 0, columns = 0, ld = 0;
};
constexpr int filled_by_thread = 4;

template <int most>
__global__ void __launch_bounds__(threads)
    fill_regions_kernel(const Grouped<Region, most> __grid_constant__ regions) {
  const auto [op, block] = piece_of_block(regions);
  const std::int64_t count = std::int64_t{op.rows} * op.columns;
#pragma unroll
  for (int n = 0; n < filled_by_thread; ++n) {
    const std::int64_t i = (std::int64_t{block} * filled_by_thread + n) * threads + threadIdx.x;
    if (i < count) op.to[i / op.columns * op.ld + i % op.columns] = op.from != nullptr ? op.from[i] : 0.F;
  }
}

// ---- Launches

// Core k as a matrix with this many columns, a multiple of its rank, with its gate unless it is the last
// core.
Matrix core_of(const TTCoreChain& train, int k, std::int64_t columns) {
  Matrix matrix = rows_of(train.core[k].data<float>(), columns);
  if (k + 1 < train.order) {
    matrix.gate = train.gate[k].data<float>();
    matrix.group = matrix.apart = narrow(train.rank(k));
  }
  return matrix;
}

// A or its gradient in the layout of L_p = L_{p-1} S_p: a row for each row of L_{p-1}.
Matrix rows_of_a(const Tensor& a, std::int64_t apart, const TTCoreChain& train) {
  const int last = train.inputs - 1;
  return {.data = a.data<float>(),
          .ld = narrow(train.mode(last) * apart),
          .group = narrow(train.rank(last)),
          .apart = narrow(apart)};
}

class Scratch {
 public:
  explicit Scratch(std::byte* begin = nullptr) : begin_(reinterpret_cast<std::uintptr_t>(begin)) {}
  float* take(std::int64_t floats) {
    const std::uintptr_t at = begin_ + bytes_;
    bytes_ += static_cast<std::size_t>((floats + 63) / 64 * 64) * sizeof(float);
    return reinterpret_cast<float*>(at);  // NOLINT(performance-no-int-to-ptr): counted from zero, it is none
  }
  std::size_t bytes() const { return bytes_; }

 private:
  std::uintptr_t begin_;
  std::size_t bytes_ = 0;
};

// L_0..L_last and R_first..R_{K-1}; the last ones may have given memory.
struct Partials {
  std::array<Matrix, max_tt_cores> at;
  std::array<std::int64_t, max_tt_cores> size{};  // rows of L_k, columns of R_k
  int waves = 0;

  // For a tensor train without its left and right factors.
  Partials(const TTCoreChain& train, Waves& waves_of_all, Scratch& scratch) {
    make(train, {}, {}, waves_of_all, scratch);
  }
  // With the factors.
  Partials(const TTFactorsForward::Factors& factors, Waves& waves_of_all, Scratch& scratch) {
    make(factors.train, rows_of_a(factors.a, factors.a_apart, factors.train),
         rows_of(factors.b.data<float>(), factors.b.dim(1)), waves_of_all, scratch);
  }

 private:
  void make(const TTCoreChain& train, const Matrix& a, const Matrix& b, Waves& to, Scratch& scratch) {
    const bool whole = a.ld != 0;
    const int last = train.order - 1;
    at[0] = core_of(train, 0, train.rank(0));
    size[0] = train.mode(0);
    for (int k = 1; k < train.inputs - (whole ? 0 : 1); ++k) {
      const std::int64_t width = train.mode(k) * train.rank(k);
      size[k] = size[k - 1] * train.mode(k);
      at[k] = rows_of(k + 1 == train.inputs ? nullptr : scratch.take(size[k] * train.rank(k)), train.rank(k));
      to.add(k - 1, {.a = at[k - 1],
                     .b = core_of(train, k, width),
                     .c = k + 1 == train.inputs ? a : rows_of(at[k].data, width),
                     .m = narrow(size[k - 1]),
                     .n = narrow(width),
                     .k = narrow(train.rank(k - 1))});
      waves = std::max(waves, k);
    }
    at[last] = core_of(train, last, train.mode(last));
    size[last] = train.mode(last);
    for (int k = last - 1; k >= train.inputs + (whole ? 0 : 1); --k) {
      const std::int64_t rows = train.rank(k - 1) * train.mode(k);
      size[k] = size[k + 1] * train.mode(k);
      at[k] = rows_of(k == train.inputs ? b.data : scratch.take(train.rank(k - 1) * size[k]), size[k]);
      to.add(last - 1 - k, {.a = core_of(train, k, train.rank(k)),
                            .b = at[k + 1],
                            .c = rows_of(at[k].data, size[k + 1]),
                            .m = narrow(rows),
                            .n = narrow(size[k + 1]),
                            .k = narrow(train.rank(k))});
      waves = std::max(waves, last - k);
    }
  }
};

void plan(const TTFactorsForward& op, Waves& waves, Scratch& scratch) {
  for (const auto& factors : op.factors) Partials(factors, waves, scratch);
}

std::size_t tt_factors_forward_scratch(const TTFactorsForward& op) {
  Waves waves;
  Scratch scratch;
  plan(op, waves, scratch);
  return scratch.bytes();
}

// The padding of A and B, the last row, and B where no product is needed.
std::vector<Region> regions_of(const TTFactorsForward& op) {
  std::vector<Region> all;
  const auto add = [&](float* to, const float* from, std::int64_t rows, std::int64_t columns,
                       std::int64_t ld) {
    if (rows > 0 && columns > 0) all.push_back({to, from, narrow(rows), narrow(columns), narrow(ld)});
  };
  for (const auto& factors : op.factors) {
    const TTCoreChain& train = factors.train;
    const std::int64_t rank = train.rank(train.inputs - 1), outputs = factors.b.dim(1),
                       rows = factors.b.dim(0);
    auto* b = factors.b.data<float>();
    const float* last_row = factors.last_row ? factors.last_row.data<float>() : nullptr;
    add(factors.a.data<float>() + rank, nullptr, train.input_size(), factors.columns() - rank,
        factors.a_apart);
    add(b + rank * outputs, nullptr, rows - rank - (last_row != nullptr ? 1 : 0), outputs, outputs);
    if (last_row != nullptr) add(b + (rows - 1) * outputs, last_row, 1, outputs, outputs);
    if (train.inputs + 1 == train.order)
      add(b, train.core[train.inputs].data<float>(), rank, outputs, outputs);
  }
  return all;
}

void launch(const std::vector<Region>& all, const Stream& stream) {
  launch_grouped(
      all,
      [](const Region& region) {
        return blocks_for(std::int64_t{region.rows} * region.columns, threads * filled_by_thread);
      },
      [&]<int most>(const Grouped<Region, most>& some, std::int64_t blocks) {
        COMERA_LAUNCH(stream, (LaunchShape{{blocks}, threads}), fill_regions_kernel<most>, some);
      });
}

void tt_factors_forward(const TTFactorsForward& op, const KernelContext& context) {
  for (const auto& factors : op.factors)
    if (const TTCoreChain& train = factors.train; train.inputs == 1)  // no product is needed
      scale_columns(context.stream, train.core[0], train.gate[0], factors.a, factors.a_apart);
  launch(regions_of(op), context.stream);
  Waves waves;
  Scratch scratch(context.scratch);
  plan(op, waves, scratch);
  waves.launch(context.stream);
}

void add(std::vector<CoreGradient>& gradients, const TTFactorsBackward::Factors& factors, int k,
         const float* dgated, std::int64_t ld) {
  const TTCoreChain& train = factors.train;
  // The last core, of one column, has no gate: then rows have the core's width.
  const bool is_last = k + 1 == train.order;
  const std::int64_t columns = is_last ? train.mode(k) : train.rank(k);
  CoreGradient gradient{.dgated = dgated,
                        .core = train.core[k].data<float>(),
                        .dcore = factors.dcore[k].data<float>(),
                        .rows = narrow(train.core[k].elements() / columns),
                        .columns = narrow(columns),
                        .ld = narrow(is_last ? columns : ld)};
  if (!is_last) gradient.gate = train.gate[k].data<float>(), gradient.dgate = factors.dgate[k].data<float>();
  gradients.push_back(gradient);
}

void plan(const TTFactorsBackward::Factors& factors, Waves& waves, Scratch& scratch,
          std::vector<CoreGradient>& gradients) {
  const TTCoreChain& train = factors.train;
  const int middle = train.inputs, last = train.order - 1;
  const Partials partials(train, waves, scratch);

  Matrix dpartial = rows_of_a(factors.da, factors.a_apart, train);
  if (middle == 1) add(gradients, factors, 0, dpartial.data, factors.a_apart);
  for (int k = middle - 1; k >= 1; --k) {  // L_k = L_{k-1} S_k
    const std::int64_t rows = partials.size[k - 1], rank = train.rank(k - 1),
                       width = train.mode(k) * train.rank(k);
    const int wave = partials.waves + middle - 1 - k;
    float* dgated = scratch.take(rank * width);
    float* dprevious = scratch.take(rows * rank);
    waves.add(wave, {.a = partials.at[k - 1],
                     .b = dpartial,
                     .c = rows_of(dgated, width),
                     .m = narrow(rank),
                     .n = narrow(width),
                     .k = narrow(rows),
                     .transpose_a = true});
    waves.add(wave, {.a = dpartial,
                     .b = core_of(train, k, width),
                     .c = rows_of(dprevious, rank),
                     .m = narrow(rows),
                     .n = narrow(rank),
                     .k = narrow(width),
                     .transpose_b = true});
    add(gradients, factors, k, dgated, train.rank(k));
    if (k == 1) add(gradients, factors, 0, dprevious, rank);
    dpartial = rows_of(dprevious, train.mode(k - 1) * rank);
  }

  float* of_factor = factors.db.data<float>();
  if (factors.dlast_row) {
    const std::int64_t outputs = factors.db.dim(1);
    auto* dlast_row = factors.dlast_row.data<float>();
    gradients.push_back({.dgated = of_factor + (factors.db.dim(0) - 1) * outputs,
                         .core = dlast_row,
                         .dcore = dlast_row,
                         .rows = 1,
                         .columns = narrow(outputs),
                         .ld = narrow(outputs)});
  }
  if (middle == last) add(gradients, factors, last, of_factor, train.rank(last));
  for (int k = middle; k < last; ++k) {  // R_k = S_k R_{k+1}
    const std::int64_t rows = train.rank(k - 1) * train.mode(k), rank = train.rank(k),
                       width = partials.size[k + 1];
    const int wave = partials.waves + k - middle;
    const bool is_core = k + 1 == last;  // R_{k+1} is the last core, which has no gate
    float* dgated = scratch.take(rows * rank);
    float* dnext = is_core ? factors.dcore[last].data<float>() : scratch.take(rank * width);
    waves.add(wave, {.a = rows_of(of_factor, width),
                     .b = partials.at[k + 1],
                     .c = rows_of(dgated, rank),
                     .m = narrow(rows),
                     .n = narrow(rank),
                     .k = narrow(width),
                     .transpose_b = true});
    waves.add(wave, {.a = core_of(train, k, rank),
                     .b = rows_of(of_factor, width),
                     .c = rows_of(dnext, width),
                     .m = narrow(rank),
                     .n = narrow(width),
                     .k = narrow(rows),
                     .transpose_a = true,
                     .accumulate = is_core});
    add(gradients, factors, k, dgated, rank);
    of_factor = dnext;
  }
}

std::size_t tt_factors_backward_scratch(const TTFactorsBackward& op) {
  Waves waves;
  Scratch scratch;
  std::vector<CoreGradient> gradients;
  for (const auto& factors : op.factors) plan(factors, waves, scratch, gradients);
  return scratch.bytes();
}

void tt_factors_backward(const TTFactorsBackward& op, const KernelContext& context) {
  Waves waves;
  Scratch scratch(context.scratch);
  std::vector<CoreGradient> gradients;
  for (const auto& factors : op.factors) plan(factors, waves, scratch, gradients);
  waves.launch(context.stream);
  launch_grouped(
      gradients, [](const CoreGradient& gradient) { return blocks_for(gradient.columns, warp); },
      [&]<int most>(const Grouped<CoreGradient, most>& some, std::int64_t blocks) {
        const LaunchShape shape{{blocks}, warp * row_groups, warp * row_groups * sizeof(float)};
        COMERA_LAUNCH(context.stream, shape, core_gradients_kernel<most>, some);
      });
}

}  // namespace

void register_tt_factors(Backend& backend, bool /*tf32*/) {
  backend.set<TTFactorsForward>(DType::float32, tt_factors_forward, tt_factors_forward_scratch);
  backend.set<TTFactorsBackward>(DType::float32, tt_factors_backward, tt_factors_backward_scratch);
}

}  // namespace comera::COMERA_CUDA
