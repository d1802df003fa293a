#include "kernels/emulation/options.h"

#include <cstdlib>
#include <string>

namespace comera::emulation {

Options& options() {
  static Options read = [] {
    Options values;
    const auto text = [](const char* name) {
      const char* value = std::getenv(name);
      return std::string(value != nullptr ? value : "");
    };
    const std::string order = text("COMERA_EMULATION_ORDER");
    if (order == "reverse") values.order = Order::reverse;
    if (order == "random") values.order = Order::random;
    if (const std::string seed = text("COMERA_EMULATION_SEED"); !seed.empty())
      values.seed = std::strtoull(seed.c_str(), nullptr, 10);
    if (const std::string workers = text("COMERA_EMULATION_WORKERS"); !workers.empty())
      values.workers = std::atoi(workers.c_str());
    return values;
  }();
  return read;
}

}  // namespace comera::emulation
