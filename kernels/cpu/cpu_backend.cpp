#include "kernels/cpu/cpu_backend.h"

#include <cstdlib>

#include "kernels/core/check.h"
#include "kernels/cpu/plain/plain_backend.h"
#include "kernels/cpu/sgemm.h"
#include "kernels/cpu/variants.h"

namespace comera {

namespace {
bool has_v3() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
}

bool has_v4() {
#ifdef COMERA_HAS_V4
  return has_v3() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
#else
  return false;
#endif
}

std::string_view choose() {
  const char* wanted = std::getenv("COMERA_ISA");
  COMERA_CHECK(has_v3(), "this processor has no AVX2 and FMA, which the CPU backend needs");
  if (wanted == nullptr || *wanted == '\0') return has_v4() ? "v4" : "v3";
  const std::string_view name = wanted;
  COMERA_CHECK(name == "v3" || name == "v4", "COMERA_ISA must be v3 or v4, not '{}'", name);
  COMERA_CHECK(name == "v3" || has_v4(), "COMERA_ISA is v4, but {}",
#ifdef COMERA_HAS_V4
               "this processor has no AVX-512: leave it out or use v3"
#else
               "this build has no AVX-512 kernels: leave it out or use v3"
#endif
  );
  return name == "v3" ? "v3" : "v4";
}
}  // namespace

std::string_view cpu_instruction_set() {
  static const std::string_view chosen = choose();
  return chosen;
}

const Backend& cpu_backend() {
  static const Backend backend = [] {
    Backend table("cpu", Device{});
    plain::register_products(table);
    plain::register_attention(table);
    plain::register_norms(table);
    plain::register_embedding(table);
    plain::register_ttm(table);
    plain::register_cross_entropy(table);
    plain::register_elementwise(table);
    plain::register_float8(table);
    plain::register_sequence(table);
    plain::register_optimizer(table);
    plain::register_ranks(table);
    if (cpu_instruction_set() == "v3") {
      cpu::limit_sgemm_to_avx2();
      comera_register_cpu_v3(table);
    } else {
#ifdef COMERA_HAS_V4
      comera_register_cpu_v4(table);
#endif
    }
    return table;
  }();
  return backend;
}

}  // namespace comera
