#include "kernels/ops/tensor_trains/ttm_rows.h"

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/products/panels.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/threads.h"

COMERA_CPU_BEGIN

namespace {
constexpr std::int64_t pieces = 16;

// C (m x n) = A B or C += A B of tiny matrices whose rows are adjacent in B and C.
template <Into into, class At>
void rows_of_product(const Left& left, const float* b, std::int64_t m, std::int64_t n, std::int64_t k,
                     float* c, At at) {
  constexpr int together = 8;
  for (std::int64_t i = 0; i < m; i += together) {
    for_rows<together>(m - i, [&]<int Rows>() {
      vec total[Rows] = {};
      const float* a = left.a + i * left.row;
      for (std::int64_t l = 0; l < k; ++l, a += left.step) {
        const vec x = at.load(b + l * n);
#pragma GCC unroll 8
        for (int r = 0; r < Rows; ++r) total[r] += a[r * left.row] * x;
      }
#pragma GCC unroll 8
      for (int r = 0; r < Rows; ++r) {
        float* to = c + (i + r) * n;
        at.store(to, into == Into::add ? at.load(to) + total[r] : total[r]);
      }
    });
  }
}

template <Into into>
void small_product(const Left& left, const float* b, std::int64_t m, std::int64_t n, std::int64_t k,
                   float* c) {
  for_columns(0, n, [&](std::int64_t j, auto at) { rows_of_product<into>(left, b + j, m, n, k, c + j, at); });
}

// Fixed ranges of [0, count), with ends moved so that entries with one key stay together.
template <class Key>
std::int64_t range_begin(std::int64_t piece, std::int64_t count, const Key& key) {
  std::int64_t i = count * piece / pieces;
  while (i > 0 && i < count && key(i) == key(i - 1)) ++i;
  return i;
}
std::int64_t rows_of(const Tensor& frequent) { return frequent ? frequent.dim(0) : 0; }

// Ids are distinct.
void add_to_frequent(const TTMRowsBackward& op, std::int64_t count, std::int64_t width) {
  parallel_pieces(pieces, thread_limit(), [&](std::int64_t piece, int) {
    for (std::int64_t u = count * piece / pieces; u < count * (piece + 1) / pieces; ++u) {
      const std::int64_t id = op.ids.data<std::int32_t>()[u];
      if (id >= op.dfrequent.dim(0)) return;  // they ascend
      const float* from = op.drows.data<float>() + u * width;
      float* to = op.dfrequent.data<float>() + id * width;
      for_columns(0, width,
                  [&](std::int64_t j, auto at) { at.store(to + j, at.load(to + j) + at.load(from + j)); });
    }
  });
}
}  // namespace

void ttm_rows_forward(const TTMRowsForward& op, const KernelContext&) {
  const std::int64_t nl = op.left.dim(1), rank = op.left.dim(2), rights = op.right.dim(0);
  const std::int64_t nr = op.right.dim(2), all = op.rows.dim(0), count = *op.count.data<std::int32_t>();
  constexpr std::int64_t rows_of_piece = 32;
  parallel_pieces((all + rows_of_piece - 1) / rows_of_piece, thread_limit(), [&](std::int64_t piece, int) {
    const std::int64_t end = std::min(all, (piece + 1) * rows_of_piece);
    for (std::int64_t u = piece * rows_of_piece; u < end; ++u) {
      float* row = op.rows.data<float>() + u * nl * nr;
      if (u >= count) {
        std::fill_n(row, nl * nr, 0.F);
        continue;
      }
      const std::int64_t id = op.ids.data<std::int32_t>()[u];
      if (id < rows_of(op.frequent)) {
        std::copy_n(op.frequent.data<float>() + id * nl * nr, nl * nr, row);
        continue;
      }
      small_product<Into::set>({op.left.data<float>() + id / rights * nl * rank, rank},
                               op.right.data<float>() + id % rights * rank * nr, nl, nr, rank, row);
    }
  });
}

std::size_t ttm_rows_backward_scratch(const TTMRowsBackward& op) {
  return static_cast<std::size_t>(thread_limit() * op.right.dim(1) * op.right.dim(2)) * sizeof(float);
}

void ttm_rows_backward(const TTMRowsBackward& op, const KernelContext& context) {
  const std::int64_t nl = op.left.dim(1), rank = op.left.dim(2), rights = op.right.dim(0);
  const std::int64_t nr = op.right.dim(2), count = *op.count.data<std::int32_t>();
  const auto *ids = op.ids.data<std::int32_t>(), *order = op.right_order.data<std::int32_t>();
  const float* drows = op.drows.data<float>();
  const std::int64_t frequent = rows_of(op.dfrequent);
  const int threads = thread_limit();
  if (frequent > 0) add_to_frequent(op, count, nl * nr);

  const auto left_of = [&](std::int64_t i) { return ids[i] / rights; };
  parallel_pieces(pieces, threads, [&](std::int64_t piece, int thread) {
    float* across = reinterpret_cast<float*>(context.scratch) + thread * rank * nr;  // rightᵀ
    const std::int64_t end = range_begin(piece + 1, count, left_of);
    for (std::int64_t u = range_begin(piece, count, left_of); u < end; ++u) {
      if (ids[u] < frequent) continue;
      transpose(op.right.data<float>() + ids[u] % rights * rank * nr, nr, rank, nr, across, rank);
      small_product<Into::add>({drows + u * nl * nr, nr}, across, nl, rank, nr,
                               op.dleft.data<float>() + left_of(u) * nl * rank);
    }
  });

  const auto right_of = [&](std::int64_t i) { return ids[order[i]] % rights; };
  parallel_pieces(pieces, threads, [&](std::int64_t piece, int) {
    const std::int64_t end = range_begin(piece + 1, count, right_of);
    for (std::int64_t i = range_begin(piece, count, right_of); i < end; ++i) {
      const std::int64_t u = order[i];
      if (ids[u] < frequent) continue;
      small_product<Into::add>({op.left.data<float>() + left_of(u) * nl * rank, 1, rank}, drows + u * nl * nr,
                               rank, nr, nl, op.dright.data<float>() + right_of(i) * rank * nr);
    }
  });
}

COMERA_CPU_END
