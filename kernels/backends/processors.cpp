#include "kernels/backends/processors.h"

#include "kernels/backends/backends.h"
#include "kernels/core/check.h"
#include "kernels/core/device_name.h"

namespace comera {

namespace {

bool computes_in(const Backend& backend, DType compute) {
  return backend.support(OperationId::MatrixProduct, compute) != Backend::Support::missing;
}

// A sentence for those who asked for the CPU, and for those who got it because there is no GPU.
Processor checked_cpu(DType compute) {
  Processor cpu = cpu_processor();
  if (computes_in(cpu, compute)) return cpu;
  const std::string reason = why_no_cuda_device();
  throw UsageError(fmt::format("the CPU cannot compute in {}{}; set precision.compute = \"fp32\"",
                               name_of(compute),
                               reason.empty() ? ", but this machine's GPU may: give device \"cuda\""
                                              : fmt::format(", and there is no GPU: {}", reason)));
}

}  // namespace

Processor cpu_processor() { return {backend_of(DeviceKind::cpu), host_allocator()}; }

bool computes_in(const Processor& processor, DType compute) {
  return computes_in(processor.backend, compute);
}

Processor find_processor(const std::string& name, DType compute, bool tf32) {
  if (!is_device_name(name))
    throw UsageError(fmt::format("there is no device \"{}\"; give {}", name, device_names));
  const bool automatic = name == "auto";
  const int count = name == "cpu" ? 0 : cuda_device_count();
  if (name == "cpu" || (automatic && count == 0)) return checked_cpu(compute);
  if (count == 0)
    throw UsageError(
        fmt::format("device \"{}\": {}; run on the CPU with device \"cpu\"", name, why_no_cuda_device()));
  const Backend& backend = backend_of(DeviceKind::cuda, tf32);
  if (!computes_in(backend, compute)) {
    if (automatic) return checked_cpu(compute);
    throw UsageError(
        fmt::format("device \"{}\" cannot compute in {}; change precision.compute, or run on the "
                    "CPU with device \"cpu\"",
                    name, name_of(compute)));
  }
  const int index = automatic ? 0 : device_named(name)->index;
  if (index >= count)
    throw UsageError(fmt::format("there is no device \"{}\": this machine has {} GPU{}, the first is cuda:0",
                                 name, count, count == 1 ? "" : "s"));
  return {backend, allocator_of({DeviceKind::cuda, index})};
}

}  // namespace comera
