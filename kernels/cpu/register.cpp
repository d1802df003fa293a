#include "kernels/cpu/kernels.h"
#include "kernels/cpu/tensor_trains/fits.h"
#include "kernels/cpu/variants.h"

#define COMERA_JOIN_(a, b) a##b
#define COMERA_JOIN(a, b) COMERA_JOIN_(a, b)

// The only symbol of this instruction set visible to the rest of the program.
extern "C" void COMERA_JOIN(comera_register_cpu_, COMERA_KERNEL_ISA)(comera::Backend& backend) {
  using namespace comera::cpu;  // NOLINT(google-build-using-namespace): this variant's kernels
#define COMERA_KERNEL(operation, name) backend.set<comera::operation>(comera::DType::float32, name);
#define COMERA_KERNEL_WITH_SCRATCH(operation, name) \
  backend.set<comera::operation>(comera::DType::float32, name, name##_scratch);
// NOLINTBEGIN(bugprone-macro-parentheses): names of templates
#define COMERA_TYPED_KERNEL(operation, name)                           \
  backend.set<comera::operation>(comera::DType::float32, name<float>); \
  backend.set<comera::operation>(comera::DType::bfloat16, name<comera::bfloat16>);
#define COMERA_TYPED_KERNEL_WITH_SCRATCH(operation, name)                                         \
  backend.set<comera::operation>(comera::DType::float32, name<float>, name##_scratch,             \
                                 fits_kernels<comera::operation>());                              \
  backend.set<comera::operation>(comera::DType::bfloat16, name<comera::bfloat16>, name##_scratch, \
                                 fits_kernels<comera::operation>());
// NOLINTEND(bugprone-macro-parentheses)
#include "kernels/cpu/kernels.def"
#undef COMERA_KERNEL
#undef COMERA_KERNEL_WITH_SCRATCH
#undef COMERA_TYPED_KERNEL
#undef COMERA_TYPED_KERNEL_WITH_SCRATCH
}
