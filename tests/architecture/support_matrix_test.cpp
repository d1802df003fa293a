// docs/reference/support-matrix.md says what each backend has: it must be what their tables hold.
// COMERA_UPDATE_DOCS=1 in the environment writes the page.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "kernels/core/check.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/reference/reference_backend.h"

namespace comera::test {

namespace {

const char* word_of(Backend::Support support) {
  switch (support) {
    case Backend::Support::native:
      return "native";
    case Backend::Support::composed:
      return "composed";
    case Backend::Support::missing:
      break;
  }
  return "missing";
}

std::string support_matrix() {
  const struct {
    const char* name;
    const Backend& backend;
    DType type;
  } columns[] = {
      {"reference", reference_backend(), DType::float32}, {"reference", reference_backend(), DType::float64},
      {"cpu", cpu_backend("v3"), DType::float32},         {"cpu", cpu_backend("v3"), DType::float64},
      {"cpu", cpu_backend("v3"), DType::bfloat16},        {"cuda", cuda_emulated::backend(), DType::float32},
      {"cuda", cuda_emulated::backend(), DType::bfloat16}};
  std::string text =
      "# Support matrix\n"
      "This page lists which operations each backend has a kernel for, by compute type.\n"
      "\n"
      "*native*: a kernel of its own; *composed*: made of other operations (`kernels/ops/compositions.h`); "
      "*missing*: running\n"
      "it throws. Operations are those of `kernels/ops/backend.h`. The float64 kernels of `cpu` are those of "
      "`reference`, the\n"
      "reference backend of the tests. `cuda` has no float64, `reference` no bfloat16; what is missing in "
      "bfloat16 is computed on\n"
      "float32 parameters. The kernels of `cpu` are those of AVX2 (v3); AVX-512 BF16 and AMX have further "
      "ones in "
      "bfloat16, for\n"
      "the parts of a token table (TTMTableForward and TTMTableBackward).\n"
      "\n"
      "A test compares this page with the tables of the backends; after a change,\n"
      "`COMERA_UPDATE_DOCS=1 ctest --preset release -R SupportMatrix` writes it.\n"
      "\n"
      "| operation |";
  std::string rule = "|---|";
  for (const auto& column : columns) {
    text += fmt::format(" {} {} |", column.name, name_of(column.type));
    rule += "---|";
  }
  text += "\n" + rule + "\n";
  for (int id = 0; id < operation_count; ++id) {
    text += fmt::format("| {} |", operation_names[id]);
    for (const auto& column : columns)
      text +=
          fmt::format(" {} |", word_of(column.backend.support(static_cast<OperationId>(id), column.type)));
    text += "\n";
  }
  return text;
}

TEST(SupportMatrix, IsThatOfTheTables) {
  const std::filesystem::path file =
      std::filesystem::path(COMERA_SOURCE_DIR) / "docs/reference/support-matrix.md";
  const std::string expected = support_matrix();
  if (std::getenv("COMERA_UPDATE_DOCS") != nullptr) std::ofstream(file) << expected;
  std::stringstream found;
  found << std::ifstream(file).rdbuf();
  EXPECT_EQ(found.str(), expected) << file << " is out of date; COMERA_UPDATE_DOCS=1 writes it";
}

// In double precision the CPU computes as the plain backend does.
TEST(SupportMatrix, TheCPUHasAllOfThePlainBackend) {
  for (int id = 0; id < operation_count; ++id)
    for (const DType type : {DType::float32, DType::float64}) {
      const auto operation = static_cast<OperationId>(id);
      if (reference_backend().support(operation, type) == Backend::Support::missing) continue;
      EXPECT_NE(cpu_backend().support(operation, type), Backend::Support::missing) << operation_names[id];
    }
}

// What is said of the GPU's kernels is read from their emulated table.
TEST(SupportMatrix, EmulatedKernelsAreThoseOfTheGpu) {
  const Backend* compiled = nullptr;
  try {
    compiled = &cuda::backend();
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  for (int id = 0; id < operation_count; ++id)
    for (const DType type : {DType::float32, DType::float64, DType::bfloat16})
      EXPECT_EQ(compiled->support(static_cast<OperationId>(id), type),
                cuda_emulated::backend().support(static_cast<OperationId>(id), type))
          << operation_names[id] << " " << name_of(type);
}

}  // namespace

}  // namespace comera::test
