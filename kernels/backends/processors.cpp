#include "kernels/backends/processors.h"

#include <algorithm>
#include <charconv>

#include "kernels/backends/backends.h"
#include "kernels/core/check.h"

namespace comera {

namespace {

// The number behind "cuda:", 0 of "cuda"; -1 of anything else.
int cuda_index(const std::string& name) {
  if (name == "cuda") return 0;
  constexpr std::string_view prefix = "cuda:";
  if (!name.starts_with(prefix)) return -1;
  int index = -1;
  const char* end = name.data() + name.size();
  const auto [rest, code] = std::from_chars(name.data() + prefix.size(), end, index);
  return code == std::errc() && rest == end && index >= 0 ? index : -1;
}

bool computes_in(const Backend& backend, DType compute) {
  return backend.support(OperationId::MatrixProduct, compute) != Backend::Support::missing;
}

}  // namespace

bool is_device_name(const std::string& text) {
  return text == "auto" || text == "cpu" || cuda_index(text) >= 0;
}

Processor cpu_processor() { return {backend_of(DeviceKind::cpu), host_allocator()}; }

Processor find_processor(const std::string& name, DType compute) {
  if (!is_device_name(name))
    throw UsageError(fmt::format("there is no device \"{}\"; give {}", name, device_names));
  const bool automatic = name == "auto";
  const int count = name == "cpu" ? 0 : cuda_device_count();
  if (name == "cpu" || (automatic && count == 0)) return cpu_processor();
  if (count == 0)
    throw UsageError(
        fmt::format("device \"{}\": {}; run on the CPU with device \"cpu\"", name, why_no_cuda_device()));
  const Backend& backend = backend_of(DeviceKind::cuda);
  if (!computes_in(backend, compute)) {
    if (automatic) return cpu_processor();
    throw UsageError(
        fmt::format("device \"{}\" cannot compute in {}; change precision.compute, or run on the "
                    "CPU with device \"cpu\"",
                    name, name_of(compute)));
  }
  const int index = automatic ? 0 : cuda_index(name);
  if (index >= count)
    throw UsageError(fmt::format("there is no device \"{}\": this machine has {} GPU{}, the first is cuda:0",
                                 name, count, count == 1 ? "" : "s"));
  return {backend, allocator_of({DeviceKind::cuda, index})};
}

}  // namespace comera
