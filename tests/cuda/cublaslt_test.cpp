// Products through cuBLASLt's interface, as the fake library of the emulation answers it: what the backend
// asks is allowed, and what the library refuses is said in one sentence.
#include <dlfcn.h>
#include <gmock/gmock.h>

#include "kernels/core/tensors/arena.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/cuda_memory.h"
#include "kernels/emulation/cublaslt_fake.h"
#include "kernels/emulation/runtime.h"
#include "kernels/ops/products/float8.h"
#include "kernels/ops/products/matrix_product.h"
#include "tests/operations/op_test_context.h"
#include "tests/support/temporary_folder.h"

namespace comera::test {
namespace {

using emulation::FakeCublasLt;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

FakeCublasLt& fake() {
  void* library = dlopen(COMERA_FAKE_CUBLASLT, RTLD_NOW | RTLD_LOCAL);
  EXPECT_NE(library, nullptr) << dlerror();
  return *reinterpret_cast<emulation::FakeCublasLtFunction>(
      dlsym(library, emulation::fake_cublaslt_function))();
}

class CublasLt : public testing::Test {
 protected:
  void TearDown() override {
    const FakeCublasLt before = fake();
    fake() = {.put = before.put, .is_capturing = before.is_capturing};
  }
  // A product of a shape that nobody has asked for before, since what was found is kept.
  OpTestContext& product(std::int64_t m, std::int64_t n, std::int64_t k, DType type = DType::float32) {
    worlds_.emplace_back(cuda_emulated::backend(), type, *device_, type);
    OpTestContext& world = worlds_.back();
    MatrixProduct op;
    op.m = m, op.n = n, op.k = k;
    op.a = world.input({m, k});
    op.b = world.input({k, n});
    op.c = world.output("c", {m, n});
    world.run(op);
    return world;
  }
  // The calls of the runtime that a product with a bias of C's type took, or one that begins `apart` bytes
  // behind a multiple of 16.
  std::vector<std::string> biased_product(DType type, bool rounded, std::int64_t apart = 0) {
    worlds_.emplace_back(cuda_emulated::backend(), type, *device_, type);
    OpTestContext& world = worlds_.back();
    BiasedProduct op;
    op.product.m = 5, op.product.n = 16, op.product.k = 24;
    op.product.a = world.input({5, 24});
    op.product.b = world.input({24, 16});
    op.product.c = world.output("c", {5, 16});
    op.bias = world.chosen_master({16}, std::vector<float>(16, 0.5F));
    const std::int64_t elements = apart / static_cast<std::int64_t>(size_of(type));
    if (rounded)
      op.rounded =
          world.chosen("", {16 + elements}, std::vector<float>(16 + elements, 0.5F)).slice(elements, {16});
    std::vector<std::string> calls;
    emulation::log_calls(&calls);
    world.run(op);
    emulation::log_calls(nullptr);
    std::erase_if(calls, [](const std::string& call) {
      return !call.starts_with("launch") && !call.starts_with("product");
    });
    return calls;
  }
  OpTestContext& float8_product(std::int64_t m, std::int64_t n, std::int64_t k) {
    worlds_.emplace_back(cuda_emulated::backend(), DType::float32, *device_, DType::float32);
    OpTestContext& world = worlds_.back();
    const Float8Scale scale{.inverse = 1, .scale = 1};
    Float8Product op;
    op.m = m, op.n = n, op.k = k;
    op.a = world.codes("a", {m, k}, DType::float8_e4m3, 4, true);
    op.b = world.codes("b", {n, k}, DType::float8_e4m3, 4, true);
    op.c = world.output("c", {m, n});
    op.type = DType::float32;
    op.scale_a = op.scale_b = world.bytes(&scale, sizeof scale);
    world.run(op);
    return world;
  }

  std::unique_ptr<Allocator> device_ = cuda_emulated::make_allocator(0);
  std::vector<OpTestContext> worlds_;
};

TEST_F(CublasLt, WhatIsAskedOfItIsAllowed) {
  product(3, 5, 7);
  product(4, 4, 300);  // whose sums are split: it needs a workspace
  product(6, 10, 14, DType::bfloat16);
  float8_product(5, 16, 32);
  EXPECT_EQ(fake().refused, "");
  EXPECT_GE(fake().heuristics, 4);
  EXPECT_EQ(fake().products, 4);
  EXPECT_GT(fake().largest_promise, 16u);  // as pointers really are aligned
}

// One that the library takes: another launch adds others.
TEST_F(CublasLt, AddsABiasOfTheResultsType) {
  EXPECT_THAT(biased_product(DType::float32, false), ElementsAre("product"));
  EXPECT_THAT(biased_product(DType::bfloat16, true), ElementsAre("product"));
  EXPECT_THAT(biased_product(DType::bfloat16, false), ElementsAre("product", StartsWith("launch")));
  EXPECT_THAT(biased_product(DType::bfloat16, true, 8), ElementsAre("product", StartsWith("launch")));
  EXPECT_EQ(fake().refused, "");
}

TEST_F(CublasLt, WithoutAnAlgorithmTheProductIsNamed) {
  fake().finds_nothing = true;
  EXPECT_THAT(
      error_of([&] { product(3, 5, 8); }),
      AllOf(HasSubstr("cuBLASLt found no algorithm for the product of float32 (3 x 8) and float32 (8 x 5)"),
            HasSubstr("CUBLAS_STATUS_NOT_SUPPORTED")));
  fake().finds_nothing = false;
  product(3, 5, 8);  // it was not kept
}

TEST_F(CublasLt, AnAlgorithmThatCannotRunIsNone) {
  fake().state = CUBLAS_STATUS_NOT_SUPPORTED;
  EXPECT_THAT(error_of([&] { product(3, 5, 9); }),
              HasSubstr("cuBLASLt found no algorithm for the product of"));
}

TEST_F(CublasLt, ACallThatFailsNamesItself) {
  product(3, 5, 10);
  fake().failing_call = "cublasLtMatmul";
  EXPECT_THAT(error_of([&] { product(3, 5, 10); }),
              AllOf(HasSubstr("matrix_product.cu"), HasSubstr("cublasLtMatmul("), HasSubstr("failed"),
                    HasSubstr("CUBLAS_STATUS_EXECUTION_FAILED")));
}

}  // namespace
}  // namespace comera::test
