#include "kernels/reference/reference_backend.h"

#include "kernels/cpu/machine.h"

namespace comera {

namespace plain {

void register_all(Backend& backend) {
#define COMERA_REGISTER(file) register_##file(backend);
  COMERA_PLAIN_FILES(COMERA_REGISTER)
#undef COMERA_REGISTER
}

}  // namespace plain

const Backend& plain_backend() {
  static const Backend backend = [] {
    Backend table("plain", Device{}, cpu_machine);
    plain::register_all(table);
    return table;
  }();
  return backend;
}

}  // namespace comera
