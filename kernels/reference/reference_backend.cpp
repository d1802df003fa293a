#include "kernels/reference/reference_backend.h"

#include "kernels/ops/cpu_machine.h"

namespace comera {

namespace reference {

void register_all(Backend& backend) {
#define COMERA_REGISTER(file) register_##file(backend);
  COMERA_REFERENCE_FILES(COMERA_REGISTER)
#undef COMERA_REGISTER
}

}  // namespace reference

const Backend& reference_backend() {
  static const Backend backend = [] {
    Backend table("reference", Device{}, cpu_machine);
    reference::register_all(table);
    return table;
  }();
  return backend;
}

}  // namespace comera
