// docs/support-matrix.md says what each backend has: it must be what their tables hold.
// COMERA_UPDATE_DOCS=1 in the environment writes it anew.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/plain/plain_backend.h"

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
  const Backend* backends[] = {&plain_backend(), &cpu_backend()};
  const DType types[] = {DType::float32, DType::float64};
  std::string text =
      "# Support matrix\n"
      "What each backend has for every operation of `kernels/ops/backend.h` and compute type. *native*: a "
      "kernel of its own; *composed*: made of other operations (`kernels/ops/compositions.cpp`); *missing*: "
      "running it throws. The float64 kernels of `cpu` are those of `plain`, the oracle of the tests.\n\n"
      "A test compares this page with the tables; after a change, write it anew with "
      "`COMERA_UPDATE_DOCS=1 ctest --preset release -R SupportMatrix`.\n\n"
      "| operation |";
  std::string rule = "|---|";
  for (const Backend* backend : backends)
    for (const DType type : types) {
      text += fmt::format(" {} {} |", backend->name(), name_of(type));
      rule += "---|";
    }
  text += "\n" + rule + "\n";
  for (int id = 0; id < operation_count; ++id) {
    text += fmt::format("| {} |", operation_names[id]);
    for (const Backend* backend : backends)
      for (const DType type : types)
        text += fmt::format(" {} |", word_of(backend->support(static_cast<OperationId>(id), type)));
    text += "\n";
  }
  return text;
}

TEST(SupportMatrix, IsThatOfTheTables) {
  const std::filesystem::path file = std::filesystem::path(COMERA_SOURCE_DIR) / "docs/support-matrix.md";
  const std::string expected = support_matrix();
  if (std::getenv("COMERA_UPDATE_DOCS") != nullptr) std::ofstream(file) << expected;
  std::stringstream found;
  found << std::ifstream(file).rdbuf();
  EXPECT_EQ(found.str(), expected) << file << " is out of date; write it anew with COMERA_UPDATE_DOCS=1";
}

}  // namespace

}  // namespace comera::test
