#include <algorithm>
#include <array>
#include <vector>

#include "kernels/ops/tensor_trains/ttm_chain.h"
#include "kernels/reference/reference_backend.h"

namespace comera::reference {

namespace {

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

template <class T>
void register_for(Backend& backend) {
  backend.set<TTMChainForward>(dtype_of<T>, ttm_chain_forward<T>);
  backend.set<TTMChainBackward>(dtype_of<T>, ttm_chain_backward<T>);
}

}  // namespace

void register_ttm_chain(Backend& backend) {
  register_for<float>(backend);
  register_for<double>(backend);
}

}  // namespace comera::reference
