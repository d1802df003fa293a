// Matrix products through cuBLASLt, including those of 8-bit operands. The library's algorithm for a shape is
// queried once and cached.

#include <algorithm>
#include <compare>
#include <map>
#include <mutex>

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/products/cublaslt.h"
#include "kernels/cuda/products/small_products.h"
#include "kernels/ops/products/float8.h"
#include "kernels/ops/products/matrix_product.h"

namespace comera::COMERA_CUDA {

namespace {

void check_blas(cublasStatus_t status, const char* call, int line) {
  COMERA_CHECK(status == CUBLAS_STATUS_SUCCESS, "{}:{}: {} failed: {}", __FILE__, line, call,
               cublasLtGetStatusString(status));
}
#define COMERA_BLAS_CALL(call) check_blas(call, #call, __LINE__)

constexpr std::size_t most_workspace = std::size_t{32} << 20;

cublasLtHandle_t handle() {
  // Created at the first product and never freed: destructors of other objects may still use it.
  static cublasLtHandle_t made = [] {
    cublasLtHandle_t fresh = nullptr;
    COMERA_BLAS_CALL(cublasLtCreate(&fresh));
    return fresh;
  }();
  return made;
}

struct Key {
  std::int64_t m, n, k, lda, ldb, ldc, batch, stride_a, stride_b, stride_c;
  bool transpose_a, transpose_b;
  DType type_a, type_b, type_c;
  bool tf32;                                  // for float32 operands
  bool fast;                                  // for 8-bit operands: sums with fewer bits
  int alignment_a, alignment_b, alignment_c;  // bytes; the library's kernels depend on it
  int alignment_bias;                         // zero: without a bias
  auto operator<=>(const Key&) const = default;
};

// The largest power of 2 that divides `bytes`, up to the alignment that the library has kernels for.
int alignment_of(std::uintptr_t bytes) {
  constexpr std::uintptr_t most = 256;
  return static_cast<int>(bytes % most == 0 ? most : bytes & (~bytes + 1));
}
int alignment_of(const Tensor& tensor) {
  return alignment_of(reinterpret_cast<std::uintptr_t>(tensor.raw()));
}

// Our matrices are row-major. Read as column-major ones they are transposed, and Cᵀ = op(B)ᵀ op(A)ᵀ: the
// library gets B first.
struct Plan {
  cublasLtMatmulDesc_t product = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;
  cublasLtMatmulAlgo_t algorithm{};
  std::size_t workspace = 0;
};

cudaDataType_t library_type(DType type) {
  switch (type) {
    case DType::bfloat16:
      return CUDA_R_16BF;
    case DType::float8_e4m3:
      return CUDA_R_8F_E4M3;
    case DType::float8_e5m2:
      return CUDA_R_8F_E5M2;
    default:
      return CUDA_R_32F;
  }
}

cublasLtMatrixLayout_t layout(DType type, std::int64_t rows, std::int64_t columns, std::int64_t leading,
                              std::int64_t batch, std::int64_t stride) {
  cublasLtMatrixLayout_t made = nullptr;
  COMERA_BLAS_CALL(cublasLtMatrixLayoutCreate(&made, library_type(type), static_cast<std::uint64_t>(rows),
                                              static_cast<std::uint64_t>(columns), leading));
  const auto count = static_cast<std::int32_t>(batch);
  COMERA_BLAS_CALL(
      cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count));
  COMERA_BLAS_CALL(cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                                    &stride, sizeof stride));
  return made;
}

void set_bias(cublasLtMatmulDesc_t product, const void* bias) {
  COMERA_BLAS_CALL(
      cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias));
}

Plan make_plan(const Key& key) {
  Plan plan;
  COMERA_BLAS_CALL(cublasLtMatmulDescCreate(
      &plan.product, key.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F));
  const cublasOperation_t first = key.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t second = key.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
  COMERA_BLAS_CALL(
      cublasLtMatmulDescSetAttribute(plan.product, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first));
  COMERA_BLAS_CALL(
      cublasLtMatmulDescSetAttribute(plan.product, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second));
  if (is_float8(key.type_a)) {
    // The heuristic chooses algorithms for products with scales only if scale pointers are set. They are not
    // read here; each product sets its own.
    const auto* somewhere = reinterpret_cast<const float*>(std::uintptr_t{256});
    for (const auto scale : {CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER})
      COMERA_BLAS_CALL(cublasLtMatmulDescSetAttribute(plan.product, scale, &somewhere, sizeof somewhere));
  }
  if (key.fast) {
    const std::int8_t fast = 1;
    COMERA_BLAS_CALL(
        cublasLtMatmulDescSetAttribute(plan.product, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &fast, sizeof fast));
  }
  if (key.alignment_bias > 0) {
    const auto added = static_cast<std::uint32_t>(CUBLASLT_EPILOGUE_BIAS);
    COMERA_BLAS_CALL(
        cublasLtMatmulDescSetAttribute(plan.product, CUBLASLT_MATMUL_DESC_EPILOGUE, &added, sizeof added));
    // The heuristic derives the bias's alignment from the pointer, and does not read it.
    set_bias(plan.product, reinterpret_cast<const void*>(static_cast<std::uintptr_t>(key.alignment_bias)));
  }
  plan.b = key.transpose_b ? layout(key.type_b, key.k, key.n, key.ldb, key.batch, key.stride_b)
                           : layout(key.type_b, key.n, key.k, key.ldb, key.batch, key.stride_b);
  plan.a = key.transpose_a ? layout(key.type_a, key.m, key.k, key.lda, key.batch, key.stride_a)
                           : layout(key.type_a, key.k, key.m, key.lda, key.batch, key.stride_a);
  plan.c = layout(key.type_c, key.n, key.m, key.ldc, key.batch, key.stride_c);

  cublasLtMatmulPreference_t preference = nullptr;
  COMERA_BLAS_CALL(cublasLtMatmulPreferenceCreate(&preference));
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t what, const auto& value) {
    COMERA_BLAS_CALL(cublasLtMatmulPreferenceSetAttribute(preference, what, &value, sizeof value));
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, most_workspace);
  // Sums of split products in a fixed order and in float32, for bit-reproducible results.
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
         static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, static_cast<std::uint32_t>(key.alignment_b));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, static_cast<std::uint32_t>(key.alignment_a));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, static_cast<std::uint32_t>(key.alignment_c));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, static_cast<std::uint32_t>(key.alignment_c));
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(handle(), plan.product, plan.b, plan.a, plan.c,
                                                               plan.c, preference, 1, &found, &count);
  cublasLtMatmulPreferenceDestroy(preference);
  const cublasStatus_t usable = status == CUBLAS_STATUS_SUCCESS && count == 1 ? found.state : status;
  COMERA_CHECK(
      count == 1 && usable == CUBLAS_STATUS_SUCCESS,
      "cuBLASLt found no algorithm for the product of {}{} ({} x {}) and {}{} ({} x {}) as {}, leading "
      "dimensions {}, {}, {}, alignments {}, {}, {} bytes, batch {}{}: {}",
      name_of(key.type_a), key.transpose_a ? " transposed" : "", key.m, key.k, name_of(key.type_b),
      key.transpose_b ? " transposed" : "", key.k, key.n, name_of(key.type_c), key.lda, key.ldb, key.ldc,
      key.alignment_a, key.alignment_b, key.alignment_c, key.batch,
      key.alignment_bias > 0 ? ", with a bias" : "", cublasLtGetStatusString(usable));
  plan.algorithm = found.algo;
  plan.workspace = found.workspaceSize;
  return plan;
}

// All products of the batch add to one C, in order.
bool is_sum(const MatrixProduct& op) { return op.batch > 1 && op.stride_c == 0; }

const Plan& plan_of(const Key& key) {
  static std::mutex mutex;
  static std::map<Key, Plan> plans;
  const std::scoped_lock lock(mutex);
  const auto found = plans.find(key);
  return found != plans.end() ? found->second : plans.emplace(key, make_plan(key)).first->second;
}

const Plan& plan_of(const MatrixProduct& op, bool tf32, const Tensor& bias = {}) {
  Key key{.m = op.m,
          .n = op.n,
          .k = op.k,
          .lda = op.leading_a(),
          .ldb = op.leading_b(),
          .ldc = op.leading_c(),
          .batch = is_sum(op) ? 1 : op.batch,
          .stride_a = op.stride_a,
          .stride_b = op.stride_b,
          .stride_c = op.stride_c,
          .transpose_a = op.transpose_a,
          .transpose_b = op.transpose_b,
          .type_a = op.compute(),
          .type_b = op.compute(),
          .type_c = op.c.dtype(),
          .tf32 = tf32,
          .fast = false,
          .alignment_a = alignment_of(op.a),
          .alignment_b = alignment_of(op.b),
          .alignment_c = alignment_of(op.c),
          .alignment_bias = bias ? alignment_of(bias) : 0};
  // Products of a batch are located by their strides.
  if (op.batch > 1) {
    const auto of_stride = [](std::int64_t stride, DType type) {
      return alignment_of(static_cast<std::uintptr_t>(stride) * size_of(type));
    };
    key.alignment_a = std::min(key.alignment_a, of_stride(op.stride_a, key.type_a));
    key.alignment_b = std::min(key.alignment_b, of_stride(op.stride_b, key.type_b));
    key.alignment_c = std::min(key.alignment_c, of_stride(op.stride_c, key.type_c));
  }
  return plan_of(key);
}

bool nothing_to_do(const MatrixProduct& op) { return op.m == 0 || op.n == 0 || op.k == 0 || op.batch == 0; }

template <bool tf32>
std::size_t matrix_product_scratch(const MatrixProduct& op) {
  return nothing_to_do(op) ? 0 : plan_of(op, tf32).workspace;
}

void* at(const Tensor& tensor, std::int64_t element) {
  return static_cast<std::byte*>(tensor.raw()) + element * static_cast<std::int64_t>(size_of(tensor.dtype()));
}

void multiply(const MatrixProduct& op, const Plan& plan, const KernelContext& context) {
  COMERA_CHECK(plan.workspace <= context.scratch_bytes,
               "a product was given {} bytes of workspace, it needs {}", context.scratch_bytes,
               plan.workspace);
  const float one = 1;
  for (std::int64_t b = 0; b < (is_sum(op) ? op.batch : 1); ++b) {
    const float beta = op.accumulate || b > 0 ? 1.F : 0.F;
    void* c = op.c.raw();
    COMERA_BLAS_CALL(cublasLtMatmul(handle(), plan.product, &one, at(op.b, b * op.stride_b), plan.b,
                                    at(op.a, b * op.stride_a), plan.a, &beta, c, plan.c, c, plan.c,
                                    &plan.algorithm, context.scratch, context.scratch_bytes,
                                    stream_of(context.stream)));
  }
}

template <bool tf32>
void matrix_product(const MatrixProduct& op, const KernelContext& context) {
  if (op.m == 0 || op.n == 0 || op.batch == 0) return;
  const cudaStream_t stream = stream_of(context.stream);
  if (op.k == 0) {
    if (op.accumulate) return;
    for (std::int64_t b = 0; b < op.batch; ++b)
      COMERA_CUDA_CALL(cudaMemset2DAsync(at(op.c, b * op.stride_c), size_of(op.c.dtype()) * op.leading_c(), 0,
                                         size_of(op.c.dtype()) * op.n, op.m, stream));
    return;
  }
  multiply(op, plan_of(op, tf32), context);
}

// ---- With a bias

// The one of C's type, the only one that the library adds; empty if there is none.
const Tensor& bias_of(const BiasedProduct& op) {
  return op.bias.dtype() == op.product.c.dtype() ? op.bias : op.rounded;
}

bool is_added_by_the_library(const BiasedProduct& op) {
  constexpr int least_alignment = 16;  // what its kernels need in practice
  return !nothing_to_do(op.product) && bias_of(op) && alignment_of(bias_of(op)) >= least_alignment;
}

template <bool tf32>
std::size_t biased_product_scratch(const BiasedProduct& op) {
  return plan_of(op.product, tf32, bias_of(op)).workspace;
}

template <bool tf32>
void biased_product(const BiasedProduct& op, const KernelContext& context) {
  const Plan& plan = plan_of(op.product, tf32, bias_of(op));
  set_bias(plan.product, bias_of(op).raw());
  multiply(op.product, plan, context);
}

// ---- Of 8-bit operands

// a and b are contiguous along k: the library gets bᵀ transposed and a unchanged, the only layout in which
// Hopper multiplies 8-bit numbers.
const Plan& plan_of(const Float8Product& op) {
  return plan_of(Key{.m = op.m,
                     .n = op.n,
                     .k = op.k,
                     .lda = op.leading_a(),
                     .ldb = op.leading_b(),
                     .ldc = op.leading_c(),
                     .batch = 1,
                     .stride_a = 0,
                     .stride_b = 0,
                     .stride_c = 0,
                     .transpose_a = false,
                     .transpose_b = true,
                     .type_a = op.a.dtype(),
                     .type_b = op.b.dtype(),
                     .type_c = op.c.dtype(),
                     .tf32 = false,
                     .fast = op.fast,
                     .alignment_a = alignment_of(op.a),
                     .alignment_b = alignment_of(op.b),
                     .alignment_c = alignment_of(op.c),
                     .alignment_bias = 0});
}

bool nothing_to_do(const Float8Product& op) { return op.m == 0 || op.n == 0 || op.k == 0; }

std::size_t float8_product_scratch(const Float8Product& op) {
  return nothing_to_do(op) ? 0 : plan_of(op).workspace;
}

void float8_product(const Float8Product& op, const KernelContext& context) {
  COMERA_CHECK(op.k > 0 || op.m == 0 || op.n == 0, "Float8Product: nothing is summed");
  if (nothing_to_do(op)) return;
  const Plan& plan = plan_of(op);
  COMERA_CHECK(plan.workspace <= context.scratch_bytes,
               "a product was given {} bytes of workspace, it needs {}", context.scratch_bytes,
               plan.workspace);
  // Read from device memory when the product runs, so that a recorded product uses the current scales.
  const auto scale_by = [&](cublasLtMatmulDescAttributes_t which, const Tensor& scale) {
    const float* inverse = &static_cast<const Float8Scale*>(scale.raw())->inverse;
    COMERA_BLAS_CALL(cublasLtMatmulDescSetAttribute(plan.product, which, &inverse, sizeof inverse));
  };
  scale_by(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, op.scale_b);
  scale_by(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, op.scale_a);
  const float one = 1, beta = op.accumulate ? 1.F : 0.F;
  void* c = op.c.raw();
  COMERA_BLAS_CALL(cublasLtMatmul(handle(), plan.product, &one, op.b.raw(), plan.b, op.a.raw(), plan.a, &beta,
                                  c, plan.c, c, plan.c, &plan.algorithm, context.scratch,
                                  context.scratch_bytes, stream_of(context.stream)));
}

// ---- Several small ones

bool few_sums(const MatrixProduct& op) { return op.m * op.n * op.k <= std::int64_t{1} << 24; }

bool are_small(const MatrixProducts& op) {
  return std::ranges::all_of(op.products, [](const MatrixProduct& one) {
    const bool apart = one.batch == 1 || one.stride_c != 0;  // a batch that is summed must run in order
    return one.c.dtype() == DType::float32 && apart && few_sums(one);
  });
}

Matrix matrix_of(const Tensor& tensor, std::int64_t columns, std::int64_t ld, std::int64_t stride) {
  Matrix matrix = rows_of(tensor.data<float>(), columns);
  matrix.ld = narrow(ld);
  matrix.next = narrow(stride);
  return matrix;
}

void matrix_products(const MatrixProducts& op, const KernelContext& context) {
  Waves waves;
  for (const MatrixProduct& one : op.products) {
    if (one.m == 0 || one.n == 0) continue;
    waves.add(0, {.a = matrix_of(one.a, one.transpose_a ? one.m : one.k, one.leading_a(), one.stride_a),
                  .b = matrix_of(one.b, one.transpose_b ? one.k : one.n, one.leading_b(), one.stride_b),
                  .c = matrix_of(one.c, one.n, one.leading_c(), one.stride_c),
                  .m = narrow(one.m),
                  .n = narrow(one.n),
                  .k = narrow(one.k),
                  .transpose_a = one.transpose_a,
                  .transpose_b = one.transpose_b,
                  .accumulate = one.accumulate,
                  .batch = narrow(one.batch)});
  }
  waves.launch(context.stream);
}

}  // namespace

namespace {
template <bool tf32>
void set_products(Backend& backend, DType type) {
  backend.set<MatrixProduct>(type, matrix_product<tf32>, matrix_product_scratch<tf32>);
  backend.set<BiasedProduct>(type, biased_product<tf32>, biased_product_scratch<tf32>,
                             is_added_by_the_library);
}
}  // namespace

void register_matrix_product(Backend& backend, bool tf32) {
  if (tf32)
    set_products<true>(backend, DType::float32);
  else
    set_products<false>(backend, DType::float32);
  set_products<false>(backend, DType::bfloat16);
  backend.set<MatrixProducts>(DType::float32, matrix_products, nullptr, are_small);
  for (const DType type : {DType::float32, DType::bfloat16})
    backend.set<Float8Product>(type, float8_product, float8_product_scratch);
}

}  // namespace comera::COMERA_CUDA
