// A library that is loaded in place of cuBLASLt. It computes the products of the emulated backend on the
// host, and rejects what cuBLASLt's documentation rejects (cuBLAS Library, CUDA 13, sections
// "cublasLtMatmul()", "cublasLtMatmulAlgoGetHeuristic()" and "8-bit Floating Point Data Types (FP8) Usage"):
// incompatible types and compute types, layouts and leading dimensions that are too small, 8-bit operands
// that are not TN or not multiples of 16, pointers less aligned than promised to the heuristic, workspaces
// that are too small, an algorithm for another product, and a bias that is missing or less aligned than the
// heuristic's. An algorithm found without scale pointers is rejected with them and vice versa, which cuBLASLt
// does not promise to support.

#include "kernels/emulation/cublaslt_fake.h"

#include <array>
#include <cstring>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/emulation/tensor_core_sum.h"
#include "kernels/shared/bfloat16.h"
#include "kernels/shared/float8.h"

using comera::emulation::FakeCublasLt;

struct FakeLtHandle {};
struct FakeLtProduct {
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  cublasOperation_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N;
  const float *scale_a = nullptr, *scale_b = nullptr;
  std::int8_t fast = 0;
  std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;  // of D's type, one number for each of its rows

  bool has_bias() const { return epilogue == CUBLASLT_EPILOGUE_BIAS; }
};
struct FakeLtLayout {
  cudaDataType_t type = CUDA_R_32F;
  std::uint64_t rows = 0, columns = 0;
  std::int64_t leading = 0;
  std::int32_t batch = 1;
  std::int64_t stride = 0;
};
struct FakeLtPreference {
  std::uint64_t workspace = 0;
  std::uint32_t reductions = ~0u;
  std::array<std::uint32_t, 4> alignment = {256, 256, 256, 256};  // of A, B, C, D; the library's default
};

namespace {

FakeCublasLt& fake() {
  static FakeCublasLt made;
  return made;
}

cublasStatus_t refuse(cublasStatus_t status, std::string why) {
  fake().refused = std::move(why);
  return status;
}

// Products and layouts are kept by their callers until the process ends.
template <class T>
T* kept(T made) {
  static std::deque<T>& all = *new std::deque<T>;
  return &all.emplace_back(made);
}

bool fails(const char* call) {
  if (fake().failing_call != call) return false;
  fake().refused = "it was told to fail";
  return true;
}

template <class T>
cublasStatus_t set(T& to, const void* value, std::size_t bytes) {
  if (value == nullptr || bytes != sizeof to)
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "an attribute has another size");
  std::memcpy(&to, value, sizeof to);
  return CUBLAS_STATUS_SUCCESS;
}

bool is_8_bit(cudaDataType_t type) { return type == CUDA_R_8F_E4M3 || type == CUDA_R_8F_E5M2; }
std::int64_t bytes_of(cudaDataType_t type) { return type == CUDA_R_32F ? 4 : type == CUDA_R_16BF ? 2 : 1; }

struct Question {
  const FakeLtProduct& product;
  const FakeLtLayout &a, &b, &c, &d;

  std::uint64_t m() const { return product.transpose_a == CUBLAS_OP_T ? a.columns : a.rows; }
  std::uint64_t k() const { return product.transpose_a == CUBLAS_OP_T ? a.rows : a.columns; }
  std::uint64_t n() const { return product.transpose_b == CUBLAS_OP_T ? b.rows : b.columns; }
  std::uint64_t k_of_b() const { return product.transpose_b == CUBLAS_OP_T ? b.columns : b.rows; }
  bool has_scales() const { return product.scale_a != nullptr || product.scale_b != nullptr; }

  // Why no algorithm supports it; empty if one does.
  std::string fault(const std::array<std::uint32_t, 4>& alignment) const;
  // A hash of everything that determines the algorithm.
  std::uint64_t identity() const;
};

std::string Question::fault(const std::array<std::uint32_t, 4>& alignment) const {
  for (const FakeLtLayout* layout : {&a, &b, &c, &d})
    if (layout->leading < static_cast<std::int64_t>(layout->rows)) return "a leading dimension is too small";
  if (k() != k_of_b() || c.rows != m() || c.columns != n() || d.rows != m() || d.columns != n())
    return "the sizes of the matrices do not go together";
  if (c.type != d.type || c.leading != d.leading) return "C and D are laid out in two ways";
  for (const FakeLtLayout* layout : {&a, &b, &c})
    if (layout->batch != d.batch) return "the batches have several sizes";
  for (const std::uint32_t promised : alignment)
    if (promised == 0 || (promised & (promised - 1)) != 0 || promised > 256)
      return "an alignment is no power of 2 up to 256";
  const auto is_multiple = [](const FakeLtLayout& layout, std::uint32_t promised) {
    return promised % static_cast<std::uint32_t>(bytes_of(layout.type)) == 0;
  };
  if (!is_multiple(a, alignment[0]) || !is_multiple(b, alignment[1]) || !is_multiple(d, alignment[3]))
    return "an alignment is less than that of the type";
  if (product.epilogue != CUBLASLT_EPILOGUE_DEFAULT && !product.has_bias()) return "an unknown epilogue";
  if (!is_8_bit(a.type) && !is_8_bit(b.type)) {
    if (a.type != b.type) return "A and B have two types";
    if (a.type == CUDA_R_32F && d.type != CUDA_R_32F) return "products of float32 numbers are float32";
    if (a.type == CUDA_R_16BF && product.compute != CUBLAS_COMPUTE_32F)
      return "bfloat16 products are computed in float32";
    if (has_scales()) return "scales belong to 8-bit operands";
    if (product.fast != 0) return "fast accumulation belongs to 8-bit operands";
    return "";
  }
  if (!is_8_bit(a.type) || !is_8_bit(b.type)) return "one operand of two has 8 bits";
  if (a.type == CUDA_R_8F_E5M2 && b.type == CUDA_R_8F_E5M2) return "two operands of E5M2";
  if (product.compute != CUBLAS_COMPUTE_32F) return "8-bit products are computed in float32";
  if (product.transpose_a != CUBLAS_OP_T || product.transpose_b != CUBLAS_OP_N)
    return "8-bit operands are not TN";
  if (d.type != CUDA_R_16BF && d.type != CUDA_R_32F) return "the result of an 8-bit product has another type";
  if (m() % 16 != 0 || k() % 16 != 0) return "8-bit operands whose sizes are no multiples of 16";
  for (const FakeLtLayout* layout : {&a, &b, &d})
    if (layout->leading * bytes_of(layout->type) % 16 != 0)
      return "leading dimensions of an 8-bit product that are no multiples of 16 bytes";
  for (const int which : {0, 1, 2, 3})
    if (alignment[static_cast<std::size_t>(which)] < 16) return "8-bit products need alignments of 16 bytes";
  return "";
}

std::uint64_t Question::identity() const {
  std::uint64_t mixed = 0xcbf29ce484222325u;
  const auto mix = [&](auto value) { mixed = (mixed ^ static_cast<std::uint64_t>(value)) * 0x100000001b3u; };
  mix(product.compute), mix(product.transpose_a), mix(product.transpose_b), mix(product.fast),
      mix(product.epilogue);
  for (const FakeLtLayout* layout : {&a, &b, &c, &d})
    mix(layout->type), mix(layout->rows), mix(layout->columns), mix(layout->leading), mix(layout->batch),
        mix(layout->stride);
  return mixed;
}

// The content of an algorithm.
struct Algorithm {
  std::uint64_t identity, has_scales;
  std::array<std::uint32_t, 4> alignment;
  std::uint64_t workspace;
  std::uint64_t bias_alignment;
};
static_assert(sizeof(Algorithm) <= sizeof(cublasLtMatmulAlgo_t));

// The heuristic takes it from the pointer, which it does not read.
std::uint64_t alignment_of(const void* pointer) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  return address & (~address + 1);
}

std::uint64_t wanted_workspace(const Question& question, const FakeLtPreference& preference) {
  // Long sums of small results are split, with their parts in the workspace.
  const std::uint64_t results = question.m() * question.n();
  const std::uint64_t parts = results * 2 * sizeof(float) * static_cast<std::uint64_t>(question.d.batch);
  const bool may = (preference.reductions & CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) != 0;
  return may && question.k() >= 4 * std::max(question.m(), question.n()) && parts <= preference.workspace
             ? parts
             : 0;
}

// ---- Computation

float number_at(const void* matrix, cudaDataType_t type, std::int64_t place) {
  switch (type) {
    case CUDA_R_16BF:
      return static_cast<float>(static_cast<const comera::bfloat16*>(matrix)[place]);
    case CUDA_R_8F_E4M3:
      return static_cast<float>(static_cast<const comera::float8_e4m3*>(matrix)[place]);
    case CUDA_R_8F_E5M2:
      return static_cast<float>(static_cast<const comera::float8_e5m2*>(matrix)[place]);
    case CUDA_R_32F:
      break;
  }
  return static_cast<const float*>(matrix)[place];
}

// op(X) contiguous along k: rows are those of op(A), or the columns of op(B).
std::vector<float> operand(const void* matrix, const FakeLtLayout& layout, std::int64_t begin, bool k_first,
                           bool tf32) {
  const auto rows = static_cast<std::int64_t>(layout.rows),
             columns = static_cast<std::int64_t>(layout.columns);
  std::vector<float> numbers(static_cast<std::size_t>(rows * columns));
  for (std::int64_t column = 0; column < columns; ++column)
    for (std::int64_t row = 0; row < rows; ++row) {
      float x = number_at(matrix, layout.type, begin + column * layout.leading + row);
      if (tf32) x = std::bit_cast<float>(comera::emulation::round_to_tf32(x));
      numbers[static_cast<std::size_t>(k_first ? column * rows + row : row * columns + column)] = x;
    }
  return numbers;
}

// Sums of 8-bit products as in Hopper's tensor cores. Without `fast`, the partial sum is added to a float32
// number after every 128 products.
double sum_of_8_bit(const float* a, const float* b, std::int64_t count, bool fast) {
  constexpr int at_a_time = comera::emulation::products_of_8_bit;
  constexpr std::int64_t promoted_after = 128;
  float sum = 0, part = 0;
  for (std::int64_t begin = 0; begin < count; begin += at_a_time) {
    double addends[at_a_time + 1] = {part};
    for (std::int64_t i = begin; i < std::min(begin + at_a_time, count); ++i)
      addends[i - begin + 1] = static_cast<double>(a[i]) * b[i];
    part = comera::emulation::tensor_core_sum(addends, at_a_time + 1, comera::emulation::kept_bits_of_8_bit);
    if (!fast && (begin + at_a_time) % promoted_after == 0) sum += part, part = 0;
  }
  return sum + part;
}

double sum_of(const float* a, const float* b, std::int64_t count) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

struct Work {
  FakeLtProduct product;
  FakeLtLayout a, b, d;
  const void *matrix_a, *matrix_b;
  void *matrix_d, *workspace;
  std::size_t workspace_bytes;
  float alpha, beta;

  void run() const {
    std::memset(workspace, 0xEE, workspace_bytes);  // it belongs to the library until the product is done
    for (std::int64_t of_batch = 0; of_batch < d.batch; ++of_batch) run_one(of_batch);
  }
  void run_one(std::int64_t of_batch) const;
};

void Work::run_one(std::int64_t of_batch) const {
  const bool tf32 = product.compute == CUBLAS_COMPUTE_32F_FAST_TF32, narrow = is_8_bit(a.type);
  const bool on_tensor_cores = tf32 || a.type == CUDA_R_16BF;
  const std::vector<float> left =
      operand(matrix_a, a, of_batch * a.stride, product.transpose_a == CUBLAS_OP_T, tf32);
  const std::vector<float> right =
      operand(matrix_b, b, of_batch * b.stride, product.transpose_b == CUBLAS_OP_N, tf32);
  const auto m = static_cast<std::int64_t>(d.rows), n = static_cast<std::int64_t>(d.columns);
  const auto k = static_cast<std::int64_t>(left.size()) / std::max<std::int64_t>(m, 1);
  const double scale = (product.scale_a != nullptr ? *product.scale_a : 1.0) *
                       (product.scale_b != nullptr ? *product.scale_b : 1.0) * static_cast<double>(alpha);
  for (std::int64_t column = 0; column < n; ++column)
    for (std::int64_t row = 0; row < m; ++row) {
      const float *x = left.data() + row * k, *y = right.data() + column * k;
      double sum = narrow ? sum_of_8_bit(x, y, k, product.fast != 0) : sum_of(x, y, k);
      if (on_tensor_cores) sum = comera::emulation::cut_to_float(sum);
      const std::int64_t place = of_batch * d.stride + column * d.leading + row;
      sum *= scale;
      if (beta != 0) sum += static_cast<double>(beta) * number_at(matrix_d, d.type, place);
      if (product.has_bias()) sum += number_at(product.bias, d.type, row);
      const auto result = static_cast<float>(sum);
      if (d.type == CUDA_R_16BF)
        static_cast<comera::bfloat16*>(matrix_d)[place] = comera::bfloat16(result);
      else
        static_cast<float*>(matrix_d)[place] = result;
    }
}

}  // namespace

extern "C" {

FakeCublasLt* comera_fake_cublaslt() { return &fake(); }

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  static FakeLtHandle made;
  if (fails("cublasLtCreate")) return CUBLAS_STATUS_EXECUTION_FAILED;
  if (fake().is_capturing())
    return refuse(CUBLAS_STATUS_EXECUTION_FAILED, "it is made ready within a capture");
  *handle = &made;
  return CUBLAS_STATUS_SUCCESS;
}

const char* cublasLtGetStatusString(cublasStatus_t status) {
  static thread_local std::string text;
  const char* name = status == CUBLAS_STATUS_SUCCESS            ? "CUBLAS_STATUS_SUCCESS"
                     : status == CUBLAS_STATUS_INVALID_VALUE    ? "CUBLAS_STATUS_INVALID_VALUE"
                     : status == CUBLAS_STATUS_EXECUTION_FAILED ? "CUBLAS_STATUS_EXECUTION_FAILED"
                                                                : "CUBLAS_STATUS_NOT_SUPPORTED";
  text = name;
  if (status != CUBLAS_STATUS_SUCCESS) text += " (" + fake().refused + ")";
  return text.c_str();
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* product, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  if (scale != CUDA_R_32F) return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "alpha and beta are not float32");
  *product = kept(FakeLtProduct{.compute = compute});
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t product,
                                              cublasLtMatmulDescAttributes_t attribute, const void* value,
                                              std::size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return set(product->transpose_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return set(product->transpose_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_A_SCALE_POINTER:
      return set(product->scale_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_B_SCALE_POINTER:
      return set(product->scale_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_FAST_ACCUM:
      return set(product->fast, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return set(product->epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return set(product->bias, value, bytes);
  }
  return refuse(CUBLAS_STATUS_INVALID_VALUE, "an attribute of products that is not known");
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType_t type,
                                          std::uint64_t rows, std::uint64_t columns, std::int64_t leading) {
  *layout = kept(FakeLtLayout{.type = type, .rows = rows, .columns = columns, .leading = leading});
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute, const void* value,
                                                std::size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
      return set(layout->batch, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
      return set(layout->stride, value, bytes);
  }
  return refuse(CUBLAS_STATUS_INVALID_VALUE, "an attribute of layouts that is not known");
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = new FakeLtPreference;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, std::size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return set(preference->workspace, value, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return set(preference->reductions, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
      return set(preference->alignment[0], value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
      return set(preference->alignment[1], value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
      return set(preference->alignment[2], value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return set(preference->alignment[3], value, bytes);
  }
  return refuse(CUBLAS_STATUS_INVALID_VALUE, "a preference that is not known");
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t product,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t* results, int* found) {
  *found = 0;
  if (fails("cublasLtMatmulAlgoGetHeuristic")) return CUBLAS_STATUS_EXECUTION_FAILED;
  const Question question{*product, *a, *b, *c, *d};
  if (const std::string fault = question.fault(preference->alignment); !fault.empty())
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED, fault);
  if (fake().finds_nothing) return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "no algorithm was found");
  if (wanted < 1) return refuse(CUBLAS_STATUS_INVALID_VALUE, "no result was asked for");
  Algorithm algorithm{.identity = question.identity(),
                      .has_scales = question.has_scales() ? 1u : 0u,
                      .alignment = preference->alignment,
                      .workspace = wanted_workspace(question, *preference),
                      .bias_alignment = product->has_bias() ? alignment_of(product->bias) : 0};
  *results = {};
  std::memcpy(&results->algo, &algorithm, sizeof algorithm);
  results->workspaceSize = algorithm.workspace;
  results->state = fake().state;
  *found = 1;
  ++fake().heuristics;
  for (const std::uint32_t promised : preference->alignment)
    fake().largest_promise = std::max<std::size_t>(fake().largest_promise, promised);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t product, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t layout_a, const void* b,
                              cublasLtMatrixLayout_t layout_b, const void* beta, const void* c,
                              cublasLtMatrixLayout_t layout_c, void* d, cublasLtMatrixLayout_t layout_d,
                              const cublasLtMatmulAlgo_t* chosen, void* workspace,
                              std::size_t workspace_bytes, cublasLtStream stream) {
  if (fails("cublasLtMatmul")) return CUBLAS_STATUS_EXECUTION_FAILED;
  if (chosen == nullptr) return refuse(CUBLAS_STATUS_INVALID_VALUE, "a product without an algorithm");
  Algorithm algorithm;
  std::memcpy(&algorithm, chosen, sizeof algorithm);
  const Question question{*product, *layout_a, *layout_b, *layout_c, *layout_d};
  if (algorithm.identity != question.identity())
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "the algorithm is that of another product");
  if ((algorithm.has_scales != 0) != question.has_scales())
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED,
                  algorithm.has_scales != 0 ? "the algorithm was found with scale pointers"
                                            : "the algorithm was found before scale pointers were set");
  // Undocumented; an H200 with cuBLASLt 13.1 rejects it, and only here.
  for (const float* scale : {product->scale_a, product->scale_b})
    if (reinterpret_cast<std::uintptr_t>(scale) % 16 != 0)
      return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "a scale does not lie at a multiple of 16 bytes");
  const void* const pointers[] = {a, b, c, d};
  for (std::size_t i = 0; i < 4; ++i)
    if (pointers[i] == nullptr || reinterpret_cast<std::uintptr_t>(pointers[i]) % algorithm.alignment[i] != 0)
      return refuse(CUBLAS_STATUS_INVALID_VALUE, "a pointer is less aligned than was promised");
  if (product->has_bias() && product->bias == nullptr)
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "a bias is to be added, and there is none");
  if (product->has_bias() && alignment_of(product->bias) < algorithm.bias_alignment)
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "the bias is less aligned than the heuristic's");
  if (workspace_bytes < algorithm.workspace)
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "the workspace is too small");
  if (algorithm.workspace > 0 &&
      (workspace == nullptr || reinterpret_cast<std::uintptr_t>(workspace) % 16 != 0))
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "the workspace does not begin at a multiple of 16 bytes");
  ++fake().products;
  const Work work{.product = *product,
                  .a = *layout_a,
                  .b = *layout_b,
                  .d = *layout_d,
                  .matrix_a = a,
                  .matrix_b = b,
                  .matrix_d = d,
                  .workspace = workspace,
                  .workspace_bytes = algorithm.workspace,
                  .alpha = *static_cast<const float*>(alpha),
                  .beta = *static_cast<const float*>(beta)};
  fake().put("product", stream, [work] { work.run(); });
  return CUBLAS_STATUS_SUCCESS;
}
}
