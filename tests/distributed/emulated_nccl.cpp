#include "tests/distributed/emulated_nccl.h"

#include <dlfcn.h>

#include "kernels/core/check.h"
#include "kernels/emulation/runtime.h"

namespace comera::test {

void* fake_nccl_symbol(const char* name) {
  static void* const library = dlopen(COMERA_FAKE_NCCL, RTLD_NOW | RTLD_LOCAL);
  COMERA_CHECK(library != nullptr, "the fake NCCL could not be loaded: {}", dlerror());
  void* symbol = dlsym(library, name);
  COMERA_CHECK(symbol != nullptr, "the fake NCCL has no {}", name);
  return symbol;
}

emulation::FakeNccl& fake_nccl() {
  static emulation::FakeNccl& made = [&]() -> emulation::FakeNccl& {
    auto& fake =
        *reinterpret_cast<emulation::FakeNcclFunction>(fake_nccl_symbol(emulation::fake_nccl_function))();
    fake.put = emulation::put_when;
    fake.captures = emulation::captures;
    return fake;
  }();
  return made;
}

}  // namespace comera::test
