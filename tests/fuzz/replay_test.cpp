// The checked-in corpora of the fuzzers, including earlier failures, run through the fuzzers' functions.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <ostream>

#include "tests/fuzz/target.h"

namespace comera::fuzz {

// GoogleTest's output for a parameter.
void PrintTo(const Target& target, std::ostream* out) { *out << target.name; }

namespace {

namespace fs = std::filesystem;

void run(const Target& target, const std::string& input) {
  target.run({reinterpret_cast<const std::uint8_t*>(input.data()), input.size()});
}

class FuzzReplay : public testing::TestWithParam<Target> {};

// A broken promise ends the process, which the test's runner reports with the sentence.
TEST_P(FuzzReplay, Corpus) {
  std::vector<fs::path> files;
  const fs::path folder = fs::path(COMERA_FUZZ_CORPUS) / GetParam().name;
  for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
  std::ranges::sort(files);
  EXPECT_FALSE(files.empty());
  for (const fs::path& file : files) {
    std::ifstream stream(file, std::ios::binary);
    run(GetParam(), {std::istreambuf_iterator<char>(stream), {}});
  }
}

TEST_P(FuzzReplay, SeedsAndTheirDamage) {
  for (const std::string& seed : GetParam().seeds()) {
    run(GetParam(), seed);
    run(GetParam(), seed.substr(0, seed.size() / 2));
    for (std::uint32_t i = 0; i < 40 && !seed.empty(); ++i) {
      std::string changed = seed;
      changed[(i * 2654435761u) % seed.size()] ^= static_cast<char>(1 << (i % 8));
      run(GetParam(), changed);
      if (GetParam().mend) run(GetParam(), GetParam().mend(changed, i));
    }
  }
}

std::string name_of(const testing::TestParamInfo<Target>& tried) { return tried.param.name; }

INSTANTIATE_TEST_SUITE_P(, FuzzReplay, testing::ValuesIn(targets()), name_of);

}  // namespace
}  // namespace comera::fuzz
