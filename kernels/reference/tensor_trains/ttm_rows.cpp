#include <algorithm>

#include "kernels/ops/tensor_trains/ttm_rows.h"
#include "kernels/reference/reference_backend.h"

namespace comera::reference {

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
    if (op.frequent && id < op.frequent.dim(0)) {
      std::copy_n(op.frequent.data<T>() + id * nl * nr, nl * nr, row);
      continue;
    }
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
    if (op.dfrequent && id < op.dfrequent.dim(0)) {
      for (std::int64_t j = 0; j < nl * nr; ++j) op.dfrequent.data<T>()[id * nl * nr + j] += drow[j];
      continue;
    }
    T *dleft = op.dleft.data<T>() + l, *dright = op.dright.data<T>() + r;
    for (std::int64_t a = 0; a < nl; ++a)
      for (std::int64_t k = 0; k < rank; ++k)
        for (std::int64_t b = 0; b < nr; ++b) {
          dleft[a * rank + k] += drow[a * nr + b] * right[k * nr + b];
          dright[k * nr + b] += left[a * rank + k] * drow[a * nr + b];
        }
  }
}

template <class T>
void register_for(Backend& backend) {
  backend.set<TTMRowsForward>(dtype_of<T>, ttm_rows_forward<T>);
  backend.set<TTMRowsBackward>(dtype_of<T>, ttm_rows_backward<T>);
}

}  // namespace

void register_ttm_rows(Backend& backend) {
  register_for<float>(backend);
  register_for<double>(backend);
}

}  // namespace comera::reference
