// Prints a tokenizer's ids for the lines of a file, or for its texts if each ends with a zero byte, for
// comparison with another program: check_tokenizer_json.py. Writes a line of ids for each and, if a folder is
// given, the tokenizer in the format of Hugging Face's transformers.
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

#include "data/tokenizers/tokenizer_json.h"
#include "kernels/core/check.h"
#include "kernels/core/console.h"

namespace comera {
namespace {

int print_ids(int argc, char** argv) {
  if (argc < 4) {
    say("usage: print_ids TOKENIZER TEXT IDS [FOLDER]; a TOKENIZER is a file or a folder of Hugging "
        "Face's\n");
    return 2;
  }
  const std::filesystem::path path = argv[1];
  const data::Tokenizer tokenizer =
      is_directory(path) ? data::load_tokenizer_folder(path) : data::Tokenizer::load(path);
  std::ifstream file(argv[2], std::ios::binary);
  const std::string all(std::istreambuf_iterator<char>(file), {});
  std::istringstream texts(all);
  std::ofstream ids(argv[3], std::ios::binary);
  data::Encoder encoder(tokenizer);
  const char end = all.ends_with('\0') ? '\0' : '\n';
  for (std::string text; std::getline(texts, text, end);) {
    std::vector<std::int32_t> found;
    encoder.encode(text, found);
    for (const std::int32_t id : found) ids << id << ' ';
    ids << '\n';
  }
  if (argc > 4) {
    std::filesystem::create_directories(argv[4]);
    data::write_tokenizer_folder(tokenizer, argv[4], 2, 512);
  }
  return 0;
}

}  // namespace
}  // namespace comera

int main(int argc, char** argv) {
  try {
    return comera::print_ids(argc, argv);
  } catch (const std::exception& error) {
    comera::say("{}\n", error.what());
    return 1;
  }
}
