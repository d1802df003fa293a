// A libFuzzer program for one target: COMERA_FUZZ_TARGET. With --seeds FOLDER it writes the target's small
// inputs there instead.

#include <cstring>
#include <filesystem>
#include <fstream>

#include "tests/fuzz/target.h"

namespace {
const comera::fuzz::Target& target() { return comera::fuzz::target_of(COMERA_FUZZ_TARGET); }
}  // namespace

extern "C" {

std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

int LLVMFuzzerInitialize(int* argc, char*** argv) {
  if (*argc != 3 || std::strcmp((*argv)[1], "--seeds") != 0) return 0;
  const std::filesystem::path folder = (*argv)[2];
  std::filesystem::create_directories(folder);
  int number = 0;
  for (const std::string& seed : target().seeds())
    std::ofstream(folder / ("seed-" + std::to_string(number++)), std::ios::binary) << seed;
  std::exit(0);
}

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  target().run({data, size});
  return 0;
}

std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                    unsigned seed) {
  size = LLVMFuzzerMutate(data, size, max_size);
  // One in eight is unchanged, so that inputs rejected by checksums are tried as well.
  if (!target().mend || seed % 8 == 0) return size;
  const std::string mended = target().mend({reinterpret_cast<const char*>(data), size}, seed / 8);
  if (mended.size() > max_size) return size;
  std::memcpy(data, mended.data(), mended.size());
  return mended.size();
}

}  // extern "C"
