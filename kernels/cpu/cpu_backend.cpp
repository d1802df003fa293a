#include "kernels/cpu/cpu_backend.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>

#include "kernels/core/check.h"
#include "kernels/cpu/machine.h"
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

// AMX and AVX-512 BF16; the system lets a process use tiles that asks for them.
bool has_amx() {
#ifdef COMERA_HAS_V4
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned tiles = 1u << 24, bf16_of_tiles = 1u << 22, bf16_of_vectors = 1u << 5;
  if (!has_v4() || __get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  if ((d & tiles) == 0 || (d & bf16_of_tiles) == 0) return false;
  if (__get_cpuid_count(7, 1, &a, &b, &c, &d) == 0 || (a & bf16_of_vectors) == 0) return false;
  constexpr long request_permission = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM
  return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
#else
  return false;
#endif
}

std::string_view choose() {
  const char* wanted = std::getenv("COMERA_ISA");
  COMERA_CHECK(has_v3(), "this processor has no AVX2 and FMA, which the CPU backend needs");
  if (wanted == nullptr || *wanted == '\0') return has_amx() ? "amx" : has_v4() ? "v4" : "v3";
  const std::string_view name = wanted;
  COMERA_CHECK(name == "v3" || name == "v4" || name == "amx", "COMERA_ISA must be v3, v4 or amx, not '{}'",
               name);
  COMERA_CHECK(name != "amx" || has_amx(), "COMERA_ISA is amx, but this processor or system has no AMX");
  if (name == "amx") return "amx";
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
    Backend table("cpu", Device{}, cpu_machine);
    plain::register_all(table);
    const std::string_view set = cpu_instruction_set();
    if (set == "v3") {
      cpu::limit_sgemm_to_avx2();
      comera_register_cpu_v3(table);
    } else {
#ifdef COMERA_HAS_V4
      comera_register_cpu_v4(table);
      if (set == "amx") comera_register_cpu_amx(table);
#endif
    }
    return table;
  }();
  return backend;
}

}  // namespace comera
