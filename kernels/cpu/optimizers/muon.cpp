#include "kernels/ops/optimizers/muon.h"

#include <cmath>
#include <optional>

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/products/panels.h"
#include "kernels/cpu/products/sgemm.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/threads.h"
#ifdef __AMX_BF16__
#include "kernels/cpu/products/split_product.h"
#endif

COMERA_CPU_BEGIN

namespace {

// C = op(A) op(B) of adjacent rows, on this thread.
void exact_product(std::int64_t m, std::int64_t n, std::int64_t k, const float* a, bool transpose_a,
                   const float* b, bool transpose_b, float* c) {
  sgemm({.transpose_a = transpose_a,
         .transpose_b = transpose_b,
         .m = m,
         .n = n,
         .k = k,
         .a = a,
         .lda = transpose_a ? m : k,
         .b = b,
         .ldb = transpose_b ? k : n,
         .c = c,
         .ldc = n});
}

// The same of a product that is known to be symmetric: columns of blocks from the diagonal down, and their
// mirror image.
void exact_symmetric_product(std::int64_t n, std::int64_t k, const float* a, bool transpose_a, const float* b,
                             bool transpose_b, float* c) {
  constexpr std::int64_t width = 64;
  for (std::int64_t j = 0; j < n; j += width) {
    const std::int64_t columns = std::min(width, n - j);
    sgemm({.transpose_a = transpose_a,
           .transpose_b = transpose_b,
           .m = n - j,
           .n = columns,
           .k = k,
           .a = a + (transpose_a ? j : j * k),
           .lda = transpose_a ? n : k,
           .b = b + (transpose_b ? j * k : j),
           .ldb = transpose_b ? k : n,
           .c = c + j * n + j,
           .ldc = n});
    const std::int64_t below = j + columns;
    transpose(c + below * n + j, n, n - below, columns, c + j * n + below, n);
  }
}

#ifdef __AMX_BF16__

// The same, rounded where the operation allows it.
class Products {
 public:
  Products(Scratch& scratch, const Muon& op) {
    const std::int64_t elements = whole_blocks(op.sizes.smaller) * whole_blocks(op.sizes.larger);
    if (op.rounds) split_.emplace(elements, op.sizes.larger, scratch);
  }
  void multiply(std::int64_t m, std::int64_t n, std::int64_t k, const float* a, bool transpose_a,
                const float* b, bool transpose_b, float* c) const {
    if (!split_) return exact_product(m, n, k, a, transpose_a, b, transpose_b, c);
    split_->multiply(m, n, k, a, transpose_a, b, transpose_b, c);
  }
  void multiply_symmetric(std::int64_t n, std::int64_t k, const float* a, bool transpose_a, const float* b,
                          bool transpose_b, float* c) const {
    if (!split_) return exact_symmetric_product(n, k, a, transpose_a, b, transpose_b, c);
    split_->multiply_symmetric(n, k, a, transpose_a, b, transpose_b, c);
  }

 private:
  std::optional<SplitOperands> split_;
};
using Tiles = Bf16Tiles;

#else

struct Products {
  Products(Scratch&, const Muon&) {}

  static void multiply(std::int64_t m, std::int64_t n, std::int64_t k, const float* a, bool transpose_a,
                       const float* b, bool transpose_b, float* c) {
    exact_product(m, n, k, a, transpose_a, b, transpose_b, c);
  }
  static void multiply_symmetric(std::int64_t n, std::int64_t k, const float* a, bool transpose_a,
                                 const float* b, bool transpose_b, float* c) {
    exact_symmetric_product(n, k, a, transpose_a, b, transpose_b, c);
  }
};
struct Tiles {
  Tiles() {}
};

#endif

// Thread-local memory for the largest matrix.
struct MuonScratch {
  float *x, *u;                                    // as the matrix
  float *gram, *polynomial, *product, *q, *other;  // of its smaller side
  Products products;

  MuonScratch(Scratch& scratch, const Muon& op) : products(scratch, op) {
    const MuonSizes& sizes = op.sizes;
    x = scratch.floats(sizes.largest);
    u = scratch.floats(sizes.largest);
    for (float** square : {&gram, &polynomial, &product, &q, &other})
      *square = scratch.floats(sizes.smaller * sizes.smaller);
  }
};

// Computes Q with Q X orthogonal in q, from the gram matrix G, which is overwritten. All matrices here are
// polynomials of G, so every product is symmetric.
void orthogonalizer(MuonScratch& s, std::int64_t side) {
  const std::int64_t count = side * side;
  const auto times = [&](const float* a, const float* b, float* c) {
    s.products.multiply_symmetric(side, side, a, false, b, false, c);
  };
  for (int step = 0; step < muon_iterations; ++step) {
    const bool first = step == 0, last = step + 1 == muon_iterations;
    times(s.gram, s.gram, s.product);
    float* polynomial = first ? s.q : s.polynomial;
    for_columns(0, count, [&](std::int64_t c, auto at) {
      at.store(polynomial + c, at.load(s.gram + c) * static_cast<float>(muon_b) +
                                   at.load(s.product + c) * static_cast<float>(muon_c));
    });
    for (std::int64_t i = 0; i < side; ++i) polynomial[i * side + i] += static_cast<float>(muon_a);
    if (!first) {
      times(polynomial, s.q, s.other);
      std::swap(s.q, s.other);
    }
    if (last) break;
    times(polynomial, s.gram, s.product);
    times(s.product, polynomial, s.gram);
  }
}

// Computes U in u; overwrites X.
void orthogonalise(MuonScratch& s, std::int64_t rows, std::int64_t columns, float inverse) {
  for_columns(0, rows * columns,
              [&](std::int64_t c, auto at) { at.store(s.x + c, at.load(s.x + c) * inverse); });
  const bool wide = rows <= columns;
  const std::int64_t side = wide ? rows : columns;
  s.products.multiply_symmetric(side, wide ? columns : rows, s.x, !wide, s.x, wide, s.gram);
  orthogonalizer(s, side);
  if (wide)
    s.products.multiply(rows, columns, rows, s.q, false, s.x, false, s.u);
  else
    s.products.multiply(rows, columns, columns, s.x, false, s.q, false, s.u);
}

void update(const Muon& op, const MuonMatrix& matrix, float rate, float scale, MuonScratch s) {
  const std::int64_t rows = matrix.rows, columns = matrix.columns, count = rows * columns;
  float* p = op.parameters.data<float>() + matrix.offset;
  float* m = op.momentum.data<float>() + matrix.offset;
  const float* gradient = op.gradients.data<float>() + matrix.offset;
  const auto beta = static_cast<float>(op.beta), rest = static_cast<float>(1 - op.beta);
  for_columns(0, count, [&](std::int64_t c, auto at) {
    const vec g = at.load(gradient + c) * (scale * rest);
    const vec next = at.load(m + c) * beta + g;
    at.store(m + c, next);
    at.store(s.x + c, next * beta + g);
  });
  const double length = std::sqrt(sum_of_squares(s.x, count));
  const bool moves = !(length < muon_least_norm);  // written so that NaN passes
  if (moves) orthogonalise(s, rows, columns, static_cast<float>(1 / length));
  const float decay = matrix.decays != 0 ? static_cast<float>(op.weight_decay) : 0.F;
  for_columns(0, count, [&](std::int64_t c, auto at) {
    const vec parameter = at.load(p + c);
    vec step = parameter * decay;
    if (moves) step += at.load(s.u + c);
    at.store(p + c, parameter - step * rate);
  });
}

// One matrix per thread: there are many.
int muon_threads(const Muon& op) {
  return static_cast<int>(std::min<std::int64_t>(thread_limit(), op.sizes.count));
}
std::size_t bytes_of_a_thread(const Muon& op) {
  Scratch scratch;
  MuonScratch(scratch, op);
  return scratch.bytes();
}

}  // namespace

std::size_t muon_scratch(const Muon& op) {
  return static_cast<std::size_t>(muon_threads(op)) * bytes_of_a_thread(op);
}

void muon(const Muon& op, const KernelContext& context) {
  const auto* matrices = static_cast<const MuonMatrix*>(op.matrices.raw());
  const auto& inputs = *static_cast<const StepInputs*>(op.step_inputs.raw());
  const auto& results = *static_cast<const StepResults*>(op.results.raw());
  if (results.nonfinite != 0) return;
  const std::size_t each = bytes_of_a_thread(op);
  parallel_pieces(op.sizes.count, muon_threads(op), [&](std::int64_t i, int thread) {
    Scratch scratch(context.scratch + static_cast<std::size_t>(thread) * each);
    const Tiles tiles;
    update(op, matrices[i], static_cast<float>(inputs.learning_rate[matrices[i].group]),
           static_cast<float>(results.gradient_scale), MuonScratch(scratch, op));
  });
}

COMERA_CPU_END
