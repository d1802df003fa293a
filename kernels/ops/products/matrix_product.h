#pragma once

#include <string_view>
#include <vector>

#include "kernels/core/tensors/tensor.h"

namespace comera {

// C_b = op(A_b) op(B_b), or C_b += with accumulate; b = 0..batch-1.
//   op(A) is m x k: A is stored m x k, or k x m if transpose_a, with row stride lda; likewise B (k x n). C is
//   m x n with row stride ldc. A leading dimension of zero means adjacent rows. A and B have the compute
//   type, C has that or its master type (kernels/core/tensors/dtype.h); sums are at least float32. Tensors
//   are treated as flat memory. stride_x is the distance between batches in elements; stride_c = 0 with
//   accumulate adds all products to one C, in the order of the batch.
struct MatrixProduct {
  Tensor a, b, c;
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false, accumulate = false;
  std::int64_t lda = 0, ldb = 0, ldc = 0;
  std::int64_t batch = 1, stride_a = 0, stride_b = 0, stride_c = 0;
  std::string_view place{};  // in a product log (product_log.h); empty: the enclosing scope's

  std::int64_t leading_a() const { return lda ? lda : (transpose_a ? m : k); }
  std::int64_t leading_b() const { return ldb ? ldb : (transpose_b ? k : n); }
  std::int64_t leading_c() const { return ldc ? ldc : n; }

  DType compute() const { return a.dtype(); }
  void check() const;
};

// C = op(A) op(B) + bias, the bias added to every row. cuBLASLt takes a bias of C's type only: with `rounded`
// and a narrow C, a GPU adds that, and C is rounded once. Otherwise the bias is added to the rounded product.
struct BiasedProduct {
  MatrixProduct product;  // one, not accumulated; rows of C are adjacent
  Tensor bias;            // (n), in the master type
  Tensor rounded{};       // (n), the same in the compute type, or left out

  DType compute() const { return product.compute(); }
  void check() const;
};

// Independent products: a GPU computes small ones at once.
struct MatrixProducts {
  std::vector<MatrixProduct> products;  // at least one, all of one compute type

  DType compute() const { return products.front().compute(); }
  void check() const;
};

}  // namespace comera
