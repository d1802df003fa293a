#include "kernels/cpu/bf16_kernels.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/tensor_trains/fits.h"
#include "kernels/cpu/variants.h"

#ifdef __AMX_BF16__
#define COMERA_REGISTER_ALL comera_register_cpu_amx
#else
#define COMERA_REGISTER_ALL comera_register_cpu_bf16
#endif

extern "C" void COMERA_REGISTER_ALL(comera::Backend& backend) {
  using namespace comera::cpu;  // NOLINT(google-build-using-namespace): this variant's kernels
#define COMERA_REGISTER(operation, name)                                        \
  backend.set<comera::operation>(comera::DType::bfloat16, name, name##_scratch, \
                                 fits_kernels<comera::operation>());
  COMERA_BF16_KERNELS(COMERA_REGISTER)
#undef COMERA_REGISTER
#ifdef __AMX_BF16__
  backend.set<comera::Muon>(comera::DType::float32, muon, muon_scratch);
#endif
}
