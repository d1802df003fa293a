#include "kernels/cpu/amx_kernels.h"
#include "kernels/cpu/variants.h"

extern "C" void comera_register_cpu_amx(comera::Backend& backend) {
  using namespace comera::cpu;  // NOLINT(google-build-using-namespace): this variant's kernels
#define COMERA_REGISTER(operation, name) \
  backend.set<comera::operation>(comera::DType::bfloat16, name, name##_scratch);
  COMERA_AMX_KERNELS(COMERA_REGISTER)
#undef COMERA_REGISTER
}
