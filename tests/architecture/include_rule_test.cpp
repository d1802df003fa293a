// Who may include whom: docs/developer/architecture.md says it in words.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace comera::test {

namespace {

using Names = std::set<std::string, std::less<>>;

// The layers that each layer may include besides itself. A layer that is not listed is an error, so that
// whoever adds a folder says here where it belongs.
const std::map<std::string, Names, std::less<>>& allowed_includes() {
  static const Names kernels{"kernels/core", "kernels/shared", "kernels/ops"};
  static const auto with = [](Names names, const Names& more) {
    names.insert(more.begin(), more.end());
    return names;
  };
  static const Names models = with(kernels, {"batches", "tensorized", "model", "optim"});
  static const Names files = with(models, {"storage", "data", "checkpoints"});
  static const Names runs = with(files, {"recipes", "reports", "kernels/backends", "distributed"});
  static const std::map<std::string, Names, std::less<>> rules{
      {"kernels/shared", {}},
      {"kernels/core", {"kernels/shared"}},
      {"kernels/ops", {"kernels/core", "kernels/shared"}},
      {"kernels/reference", kernels},
      {"kernels/cpu", with(kernels, {"kernels/reference"})},
      {"kernels/emulation", {"kernels/shared"}},
      {"kernels/cuda", with(kernels, {"kernels/emulation"})},
      {"kernels/backends",
       with(kernels, {"kernels/reference", "kernels/cpu", "kernels/cuda"})},  // the registration
      {"tensorized", with(kernels, {"batches"})},
      {"batches", {"kernels/core"}},
      {"model", with(kernels, {"batches", "tensorized"})},
      {"optim", with(kernels, {"tensorized"})},
      {"distributed", {"kernels/core", "kernels/shared"}},
      {"storage", {"kernels/core", "kernels/shared"}},
      {"data", {"kernels/core", "kernels/shared", "batches", "storage"}},
      {"checkpoints", with(models, {"storage"})},
      {"recipes", files},
      {"reports", with(files, {"recipes", "kernels/backends"})},
      {"training", runs},
      {"exchange", with(runs, {"training"})},
      {"python", with(runs, {"training", "exchange"})},
      {"measurements", with(runs, {"training", "kernels/cpu"})},
      {"bench", with(runs, {"training", "measurements", "kernels/cpu"})},  // the laboratory
      {"cli", with(runs, {"training", "exchange", "measurements"})},
  };
  return rules;
}

// "kernels/ops" of "kernels/ops/backend.h", "data" of "data/tokenizers/text/words.h";
// "" for what is in no folder.
std::string layer_of(std::string_view path) {
  const auto first = path.find('/');
  if (first == std::string_view::npos) return "";
  const std::string_view folder = path.substr(0, first);
  const auto second = path.find('/', first + 1);
  if (folder != "kernels") return std::string(folder);
  return second == std::string_view::npos ? "" : std::string(path.substr(0, second));
}

struct Include {
  std::string name;
  bool quoted = false;
};

std::string_view trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") + 1 - begin);
}

// The text after "#" of a preprocessor line, "" for other lines.
std::string_view directive(std::string_view line) {
  line = trimmed(line);
  return line.starts_with('#') ? trimmed(line.substr(1)) : std::string_view{};
}

bool parse_include(std::string_view line, Include& include) {
  std::string_view text = directive(line);
  if (!text.starts_with("include")) return false;
  text = trimmed(text.substr(7));
  if (text.empty() || (text[0] != '"' && text[0] != '<')) return false;
  const auto end = text.find(text[0] == '"' ? '"' : '>', 1);
  if (end == std::string_view::npos) return false;
  include = {std::string(text.substr(1, end - 1)), text[0] == '"'};
  return true;
}

bool is_conditional(std::string_view line) {
  const std::string_view text = directive(line);
  return std::ranges::any_of(std::vector<std::string_view>{"if", "elif"},
                             [&](std::string_view word) { return text.starts_with(word); });
}

// Headers of a backend's own libraries, by their beginnings, and the files or folders that may include them.
struct ForeignHeader {
  std::string_view prefix;
  std::vector<std::string_view> places;
};
const std::vector<ForeignHeader>& foreign_headers() {
  static const std::vector<std::string_view> cuda{"kernels/cuda/", "kernels/emulation/"};
  static const std::vector<ForeignHeader> headers{
      {"cuda_runtime_api.h", {"kernels/cuda/", "kernels/emulation/", "distributed/nccl"}},  // its streams
      {"cuda", cuda},
      {"cublas", cuda},
      {"cusolver", cuda},
      {"cooperative_groups", cuda},
      {"nv", cuda},
      {"nccl", {"distributed/nccl"}},
      {"dnnl", {"kernels/cpu/products/sgemm.cpp", "bench/"}},
      {"cblas", {"tensorized/decomposition/svd.cpp"}},
      {"lapack", {"tensorized/decomposition/svd.cpp"}},
      {"oneapi/dnnl", {"kernels/cpu/products/sgemm.cpp", "bench/"}},
  };
  return headers;
}

// Macros that say which backend is compiled.
constexpr std::string_view backend_macros[] = {"CUDA", "NVCC", "NCCL", "COMERA_HAS_V4", "COMERA_HAS_CPU"};
// Where they may stand. COMERA_HAS_V4 is about one instruction set of the CPU backend.
constexpr std::string_view backend_macro_places[] = {"kernels/cuda/",     "kernels/emulation/",
                                                     "kernels/backends/", "kernels/shared/",
                                                     "kernels/cpu/",      "distributed/nccl"};

bool is_in(std::string_view path, const auto& places) {
  return std::ranges::any_of(places, [&](std::string_view place) { return path.starts_with(place); });
}

// What the line of the file breaks; "" if nothing.
std::string broken_rule(std::string_view path, std::string_view line) {
  if (is_conditional(line) && !is_in(path, backend_macro_places)) {
    for (const std::string_view macro : backend_macros)
      if (line.find(macro) != std::string_view::npos)
        return fmt::format("asks for a backend with {}: only the backends' own folders may", trimmed(line));
  }
  Include include;
  if (!parse_include(line, include)) return "";
  for (const ForeignHeader& header : foreign_headers())
    if (include.name.starts_with(header.prefix)) {
      if (is_in(path, header.places)) break;
      return fmt::format("includes {}: only {} may", include.name, fmt::join(header.places, " and "));
    }
  if (!include.quoted) return "";
  const std::string from = layer_of(path), to = layer_of(include.name);
  const auto& rules = allowed_includes();
  if (!rules.contains(to))
    return fmt::format("includes \"{}\": no layer; write the path from the root of the sources",
                       include.name);
  if (from == to || rules.at(from).contains(to)) return "";
  return fmt::format("includes \"{}\": {} may include {}", include.name, from,
                     rules.at(from).empty() ? "nothing" : fmt::format("{}", fmt::join(rules.at(from), ", ")));
}

bool is_source(const std::filesystem::path& path) {
  const std::string suffix = path.extension();
  return suffix == ".h" || suffix == ".cpp" || suffix == ".cu" || suffix == ".cuh" || suffix == ".def";
}

// Paths from the root, with '/'. Tests may include anything.
std::vector<std::string> sources(const std::filesystem::path& root) {
  std::vector<std::string> paths;
  for (const auto& folder : std::filesystem::directory_iterator(root)) {
    const std::string name = folder.path().filename();
    if (!folder.is_directory() || name.starts_with('.') || name.starts_with("build") || name == "tests")
      continue;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
      if (entry.is_regular_file() && is_source(entry.path()))
        paths.push_back(entry.path().lexically_relative(root).generic_string());
  }
  std::ranges::sort(paths);
  return paths;
}

const std::filesystem::path root = COMERA_SOURCE_DIR;

TEST(IncludeRule, HoldsForEverySource) {
  const std::vector<std::string> paths = sources(root);
  ASSERT_GT(paths.size(), 100) << "the sources were not found in " << root;
  std::size_t includes = 0;
  for (const std::string& path : paths) {
    const std::string layer = layer_of(path);
    EXPECT_TRUE(allowed_includes().contains(layer)) << path << ": its folder has no rule in this test";
    if (!allowed_includes().contains(layer)) continue;
    std::ifstream stream(root / path);
    std::string line;
    for (int number = 1; std::getline(stream, line); ++number) {
      Include include;
      includes += parse_include(line, include) && include.quoted ? 1 : 0;
      const std::string broken = broken_rule(path, line);
      EXPECT_EQ(broken, "") << path << ":" << number;
    }
  }
  EXPECT_GT(includes, 300);
}

// The rules themselves: layers may not include each other in a circle.
TEST(IncludeRule, HasNoCircles) {
  std::map<std::string, Names, std::less<>> left = allowed_includes();
  while (!left.empty()) {
    const auto lowest = std::ranges::find_if(left, [&](const auto& rule) {
      return std::ranges::none_of(rule.second, [&](const std::string& name) { return left.contains(name); });
    });
    ASSERT_NE(lowest, left.end()) << "in a circle: " << left.begin()->first;
    left.erase(lowest);
  }
}

TEST(IncludeRule, RefusesWhatItShould) {
  const auto breaks = [](std::string_view path, std::string_view line) {
    return !broken_rule(path, line).empty();
  };
  EXPECT_TRUE(breaks("kernels/core/tensors/tensor.h", "#include \"kernels/ops/backend.h\""));
  EXPECT_TRUE(breaks("kernels/ops/add.cpp", "#include \"kernels/cpu/simd.h\""));
  EXPECT_TRUE(breaks("model/model.cpp", "  #  include \"kernels/cpu/cpu_backend.h\""));
  EXPECT_TRUE(breaks("training/step/step_engine.cpp", "#include \"kernels/cuda/cuda_memory.h\""));
  EXPECT_TRUE(breaks("kernels/cpu/cpu_backend.cpp", "#include \"kernels/cuda/cuda_backend.h\""));
  EXPECT_TRUE(breaks("kernels/backends/backends.cpp", "#include <cuda_runtime.h>"));
  EXPECT_TRUE(breaks("model/model.cpp", "#include \"optim/optimizer.h\""));
  EXPECT_TRUE(breaks("tensorized/plan.cpp", "#include \"model/config.h\""));
  EXPECT_TRUE(breaks("data/batching/batch.cpp", "#include \"kernels/ops/backend.h\""));
  EXPECT_TRUE(breaks("checkpoints/model_state.h", "#include \"recipes/recipe.h\""));
  EXPECT_TRUE(breaks("recipes/recipe.h", "#include \"training/logging/json.h\""));
  EXPECT_TRUE(breaks("training/logging/json.h", "#include \"cli/progress.h\""));
  EXPECT_TRUE(breaks("cli/main.cpp", "#include \"program.h\""));
  EXPECT_TRUE(breaks("model/model.cpp", "#include <cuda_runtime.h>"));
  EXPECT_TRUE(breaks("distributed/communicator.cpp", "#include <cuda_runtime_api.h>"));
  EXPECT_TRUE(breaks("distributed/communicator.h", "#include \"kernels/ops/backend.h\""));
  EXPECT_TRUE(breaks("cli/main.cpp", "#include <cublasLt.h>"));
  EXPECT_TRUE(breaks("kernels/cpu/elementwise/layer_norm.cpp", "#include <dnnl.h>"));
  EXPECT_TRUE(breaks("kernels/cpu/elementwise/layer_norm.cpp", "#include <cblas.h>"));
  EXPECT_TRUE(breaks("tensorized/decomposition/tt_svd.cpp", "#include <lapacke.h>"));
  EXPECT_TRUE(breaks("model/model.cpp", "#ifdef COMERA_CUDA"));
  EXPECT_TRUE(breaks("model/model.cpp", "#if defined(__CUDACC__)"));

  EXPECT_FALSE(breaks("model/model.cpp", "#include \"tensorized/linear/linear.h\""));
  EXPECT_FALSE(breaks("model/model.cpp", "#include <vector>"));
  EXPECT_FALSE(breaks("model/model.cpp", "// #include \"kernels/cpu/simd.h\""));
  EXPECT_FALSE(breaks("kernels/backends/backends.cpp", "#include \"kernels/cpu/cpu_backend.h\""));
  EXPECT_FALSE(breaks("kernels/backends/backends.cpp", "#include \"kernels/cuda/cuda_backend.h\""));
  EXPECT_FALSE(breaks("kernels/shared/host_device.h", "#if defined(__CUDACC__)"));
  EXPECT_FALSE(breaks("kernels/cpu/products/sgemm.cpp", "#include <dnnl.h>"));
  EXPECT_FALSE(breaks("tensorized/decomposition/svd.cpp", "#include <cblas.h>"));
  EXPECT_FALSE(breaks("kernels/cuda/add.cu", "#include <cuda_runtime.h>"));
  EXPECT_FALSE(breaks("distributed/nccl_communicator.cpp", "#include <cuda_runtime_api.h>"));
}

}  // namespace

}  // namespace comera::test
