#include "kernels/cpu/cpu_backend.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <map>

#include "kernels/core/check.h"
#include "kernels/cpu/products/sgemm.h"
#include "kernels/cpu/variants.h"
#include "kernels/ops/cpu_machine.h"
#include "kernels/reference/reference_backend.h"

namespace comera {

namespace {
bool has_v3() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
}

bool has_avx512() {
  return has_v3() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
}

bool has_v4() {
#ifdef COMERA_HAS_V4
  return has_avx512();
#else
  return false;
#endif
}

// Whether bfloat16 products in vectors are available.
bool has_bf16() {
#ifdef COMERA_HAS_BF16
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned bf16_of_vectors = 1u << 5;
  return has_avx512() && __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a & bf16_of_vectors) != 0;
#else
  return false;
#endif
}

// The same with AMX; the system lets a process use tiles on request.
bool has_amx() {
#ifdef COMERA_HAS_V4
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned tiles = 1u << 24, bf16_of_tiles = 1u << 22;
  if (!has_bf16() || __get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  if ((d & tiles) == 0 || (d & bf16_of_tiles) == 0) return false;
  constexpr long request_permission = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM
  return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
#else
  return false;
#endif
}

// From the least to the most capable.
struct InstructionSet {
  std::string_view name, what;
  bool (*has)();
};
constexpr InstructionSet instruction_sets[] = {{"v3", "AVX2 and FMA", has_v3},
                                               {"v4", "AVX-512", has_v4},
                                               {"bf16", "AVX-512 BF16", has_bf16},
                                               {"amx", "AMX", has_amx}};

// AMD's processors are said to issue as many dot products of pairs in vectors as single-precision
// multiply-adds, which doubles the throughput; Intel's issue a quarter as many (measured on Sapphire Rapids).
bool pays(const InstructionSet& set) { return set.name != "bf16" || __builtin_cpu_is("amd") != 0; }

const InstructionSet& available(std::string_view name, std::string_view asked_by) {
  const auto* found = std::ranges::find(instruction_sets, name, &InstructionSet::name);
  COMERA_CHECK(found != std::end(instruction_sets), "{} must be v3, v4, bf16 or amx, not '{}'", asked_by,
               name);
  COMERA_CHECK(found->has(),
               "{} is {}, but this processor, system or build has no {}: leave it out, or use v3", asked_by,
               name, found->what);
  return *found;
}

std::string_view choose() {
  const char* wanted = std::getenv("COMERA_ISA");
  COMERA_CHECK(has_v3(), "this processor has no AVX2 and FMA, which the CPU backend needs");
  if (wanted != nullptr && *wanted != '\0') return available(wanted, "COMERA_ISA").name;
  std::string_view best = "v3";
  for (const InstructionSet& set : instruction_sets)
    if (set.has() && pays(set)) best = set.name;
  return best;
}

Backend backend_for(std::string_view set) {
  Backend table("cpu", Device{}, cpu_machine);
  reference::register_all(table);
#ifdef COMERA_HAS_V4
  if (set == "v3")
    comera_register_cpu_v3(table);
  else
    comera_register_cpu_v4(table);
  if (set == "amx") comera_register_cpu_amx(table);
#else
  comera_register_cpu_v3(table);
#endif
#ifdef COMERA_HAS_BF16
  if (set == "bf16") comera_register_cpu_bf16(table);
#endif
  return table;
}
}  // namespace

std::string_view cpu_instruction_set() {
  static const std::string_view chosen = choose();
  return chosen;
}

std::string_view cpu_wide_instruction_set() {
  return cpu_instruction_set() == "v3" || !has_v4() ? "v3" : "v4";
}

std::vector<std::string_view> cpu_instruction_sets() {
  std::vector<std::string_view> names;
  for (const InstructionSet& set : instruction_sets)
    if (set.has()) names.push_back(set.name);
  return names;
}

const Backend& cpu_backend() {
  static const Backend& backend = []() -> const Backend& {
    const std::string_view set = cpu_instruction_set();
    if (set == "v3") cpu::limit_sgemm_to_avx2();
    return cpu_backend(set);
  }();
  return backend;
}

const Backend& cpu_backend(std::string_view instruction_set) {
  static const std::map<std::string_view, Backend> backends = [] {
    std::map<std::string_view, Backend> made;
    for (const std::string_view set : cpu_instruction_sets()) made.emplace(set, backend_for(set));
    return made;
  }();
  return backends.at(available(instruction_set, "the instruction set").name);
}

}  // namespace comera
