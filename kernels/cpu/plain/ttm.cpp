#include <algorithm>
#include <array>
#include <vector>

#include "kernels/cpu/plain/plain_backend.h"
#include "kernels/ops/ttm_chain.h"
#include "kernels/ops/ttm_rows.h"

namespace comera::plain {

namespace {

template <class T>
void ttm_rows_forward(const TTMRowsForward& op, const KernelContext&) {
  const std::int64_t nl = op.left.dim(1), rank = op.left.dim(2), right_rows = op.right.dim(0),
                     nr = op.right.dim(2);
  const std::int32_t count = *op.count.data<std::int32_t>();
  for (std::int64_t u = 0; u < op.rows.dim(0); ++u) {
    T* row = op.rows.data<T>() + u * nl * nr;
    for (std::int64_t j = 0; j < nl * nr; ++j) row[j] = 0;
    if (u >= count) continue;
    const std::int64_t id = op.ids.data<std::int32_t>()[u];
    const T* left = op.left.data<T>() + id / right_rows * nl * rank;
    const T* right = op.right.data<T>() + id % right_rows * rank * nr;
    for (std::int64_t a = 0; a < nl; ++a)
      for (std::int64_t k = 0; k < rank; ++k)
        for (std::int64_t b = 0; b < nr; ++b) row[a * nr + b] += left[a * rank + k] * right[k * nr + b];
  }
}

template <class T>
void ttm_rows_backward(const TTMRowsBackward& op, const KernelContext&) {
  const std::int64_t nl = op.left.dim(1), rank = op.left.dim(2), right_rows = op.right.dim(0),
                     nr = op.right.dim(2);
  const std::int32_t count = *op.count.data<std::int32_t>();
  for (std::int64_t u = 0; u < count; ++u) {
    const std::int64_t id = op.ids.data<std::int32_t>()[u];
    const std::int64_t l = id / right_rows * nl * rank, r = id % right_rows * rank * nr;
    const T *left = op.left.data<T>() + l, *right = op.right.data<T>() + r;
    const T* drow = op.drows.data<T>() + u * nl * nr;
    T *dleft = op.dleft.data<T>() + l, *dright = op.dright.data<T>() + r;
    for (std::int64_t a = 0; a < nl; ++a)
      for (std::int64_t k = 0; k < rank; ++k)
        for (std::int64_t b = 0; b < nr; ++b) {
          dleft[a * rank + k] += drow[a * nr + b] * right[k * nr + b];
          dright[k * nr + b] += left[a * rank + k] * drow[a * nr + b];
        }
  }
}

// The digits of an id and the partial rows Z_1..Z_K of its chain, Z_k being (n_1..n_k, r_k).
template <class T>
struct Chain {
  std::array<std::int64_t, max_ttm_cores> digit{};
  std::array<std::vector<T>, max_ttm_cores> z;

  template <class Operation>
  Chain(const Operation& op, std::int64_t id) {
    for (int k = op.cores - 1; k >= 0; --k) {
      digit[k] = id % op.core[k].dim(1);
      id /= op.core[k].dim(1);
    }
    std::int64_t width = 1;
    for (int k = 0; k < op.cores; ++k) {
      const std::int64_t modes = op.core[k].dim(1), n = op.core[k].dim(2), before = op.core[k].dim(0),
                         after = op.core[k].dim(3);
      const T* core = op.core[k].template data<T>();
      z[k].assign(width * n * after, 0);
      for (std::int64_t w = 0; w < width; ++w)
        for (std::int64_t r = 0; r < before; ++r) {
          const T factor = k == 0 ? T{1} : z[k - 1][w * before + r] * op.gate[k - 1].template data<T>()[r];
          const T* slice = core + (r * modes + digit[k]) * n * after;
          for (std::int64_t j = 0; j < n * after; ++j) z[k][w * n * after + j] += factor * slice[j];
        }
      width *= n;
    }
  }
};

template <class T>
void ttm_chain_forward(const TTMChainForward& op, const KernelContext&) {
  const std::int64_t width = op.rows.dim(1);
  const std::int32_t count = *op.count.data<std::int32_t>();
  for (std::int64_t u = 0; u < op.rows.dim(0); ++u) {
    T* row = op.rows.data<T>() + u * width;
    if (u < count) {
      const Chain<T> chain(op, op.ids.data<std::int32_t>()[u]);
      std::copy_n(chain.z[op.cores - 1].data(), width, row);
    } else {
      std::fill_n(row, width, T{0});
    }
  }
}

template <class T>
void ttm_chain_backward(const TTMChainBackward& op, const KernelContext&) {
  const std::int64_t width = op.drows.dim(1);
  const std::int32_t count = *op.count.data<std::int32_t>();
  for (std::int64_t u = 0; u < count; ++u) {
    const Chain<T> chain(op, op.ids.data<std::int32_t>()[u]);
    std::vector<T> dz(op.drows.data<T>() + u * width, op.drows.data<T>() + (u + 1) * width);
    std::int64_t rows = width;
    for (int k = op.cores - 1; k >= 0; --k) {
      const std::int64_t modes = op.core[k].dim(1), n = op.core[k].dim(2), before = op.core[k].dim(0),
                         after = op.core[k].dim(3);
      rows /= n;
      std::vector<T> dprevious(rows * before, 0);
      for (std::int64_t w = 0; w < rows; ++w)
        for (std::int64_t r = 0; r < before; ++r) {
          const T gate = k == 0 ? T{1} : op.gate[k - 1].data<T>()[r];
          const T previous = k == 0 ? T{1} : chain.z[k - 1][w * before + r];
          const T* slice = op.core[k].data<T>() + (r * modes + chain.digit[k]) * n * after;
          T* dslice = op.dcore[k].data<T>() + (r * modes + chain.digit[k]) * n * after;
          T sum = 0;
          for (std::int64_t j = 0; j < n * after; ++j) {
            const T d = dz[w * n * after + j];
            dslice[j] += previous * gate * d;
            sum += slice[j] * d;
          }
          dprevious[w * before + r] = sum * gate;
          if (k > 0) op.dgate[k - 1].data<T>()[r] += sum * previous;
        }
      dz = std::move(dprevious);
    }
  }
}

}  // namespace

void register_ttm(Backend& backend) {
  backend.set<TTMRowsForward>(DType::float32, ttm_rows_forward<float>);
  backend.set<TTMRowsForward>(DType::float64, ttm_rows_forward<double>);
  backend.set<TTMRowsBackward>(DType::float32, ttm_rows_backward<float>);
  backend.set<TTMRowsBackward>(DType::float64, ttm_rows_backward<double>);
  backend.set<TTMChainForward>(DType::float32, ttm_chain_forward<float>);
  backend.set<TTMChainForward>(DType::float64, ttm_chain_forward<double>);
  backend.set<TTMChainBackward>(DType::float32, ttm_chain_backward<float>);
  backend.set<TTMChainBackward>(DType::float64, ttm_chain_backward<double>);
}

}  // namespace comera::plain
