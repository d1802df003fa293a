// What has one place in the program (docs/developer/architecture.md, "Process environment") is
// not done anywhere else, so that no message ends a run and no file is written through somebody's link.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

namespace comera::test {
namespace {

namespace fs = std::filesystem;

struct Word {
  std::string text;
  std::set<std::string> places;  // that may have it
};

const std::vector<Word>& words() {
  static const std::vector<Word> all = {
      {"fmt::print(", {}},
      {"std::cout", {}},
      {"std::cerr", {}},
      {"std::clog", {}},
      {"std::puts(", {}},
      {"fputs(", {}},
      {"fputc(", {}},
      {"fprintf(", {}},
      {"std::printf(", {}},
      {"std::ofstream", {}},
      {"std::fstream", {}},
      {"fopen(", {}},
      {"O_CREAT", {"storage/durable_file.cpp", "kernels/emulation/nccl_fake.cpp"}},  // shared memory
      {"H5Fcreate(", {"storage/hdf5_file.cpp"}},
      {"std::signal(", {"cli/process.cpp", "training/run/signals.cpp"}},
      {"sigaction(", {"training/run/signals.cpp"}},
  };
  return all;
}

bool is_searched(const fs::path& file) {
  static const std::set<std::string> suffixes = {".cpp", ".h", ".cu"};
  return suffixes.contains(file.extension().string());
}

TEST(OnePlace, PrintsOpensAndCatches) {
  const fs::path source = COMERA_SOURCE_DIR;
  int files = 0;
  for (const char* folder : {"batches", "bench", "checkpoints", "cli", "data", "distributed", "exchange",
                             "kernels", "measurements", "model", "optim", "python", "recipes", "reports",
                             "storage", "tensorized", "training"})
    for (const auto& entry : fs::recursive_directory_iterator(source / folder)) {
      if (!is_searched(entry.path())) continue;
      ++files;
      const std::string name = fs::relative(entry.path(), source).string();
      std::ifstream stream(entry.path());
      int number = 0;
      for (std::string line; std::getline(stream, line);) {
        ++number;
        const std::string code = line.substr(0, line.find("//"));
        for (const Word& word : words())
          EXPECT_TRUE(code.find(word.text) == std::string::npos || word.places.contains(name))
              << name << ":" << number << ": " << word.text << " belongs to another place";
      }
    }
  EXPECT_GT(files, 200);
}

}  // namespace
}  // namespace comera::test
