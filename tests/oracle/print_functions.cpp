// The documented functions of source files, for comparison with another program: check_functions.py. Writes a
// line of JSON for each file, a list of objects with name, documentation and code.
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "data/corpus/functions.h"
#include "kernels/core/console.h"

int main(int argc, char** argv) {
  using namespace comera;
  if (argc < 4) {
    log_info("usage: print_functions LANGUAGE OUTPUT FILE...\n");
    return 2;
  }
  std::ofstream output(argv[2], std::ios::binary);
  for (int i = 3; i < argc; ++i) {
    std::ifstream file(argv[i], std::ios::binary);
    const std::string source(std::istreambuf_iterator<char>(file), {});
    auto found = nlohmann::json::array();
    for (const data::DocumentedFunction& function : data::find_documented_functions(source, argv[1]))
      found.push_back(
          {{"name", function.name}, {"documentation", function.documentation}, {"code", function.code}});
    output << found.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
  }
}
