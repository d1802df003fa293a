#include "kernels/backends/processors.h"

#include <string_view>

#include "kernels/backends/backends.h"
#include "kernels/core/check.h"
#include "kernels/core/device_name.h"

namespace comera {

namespace {

bool computes_in(const Backend& backend, DType compute) {
  return backend.support(OperationId::MatrixProduct, compute) != Backend::Support::missing;
}

}  // namespace

std::string computes_with(const Processor& processor, DType compute) {
  if (processor.allocator.device().kind != DeviceKind::cpu) {
    const MachineModel& machine = processor.backend.machine();  // its plans follow from these numbers
    return fmt::format("{} with plans for {:.0f} and {:.0f} TFLOP/s, {:.0f} GB/s and parts of {} MiB",
                       processor.backend.name(), machine.flops_per_second * 1e-12,
                       machine.narrow_flops_per_second * 1e-12, machine.bytes_per_second * 1e-9,
                       machine.part_bytes >> 20);
  }
  return instruction_set(compute);
}

bool faster_in_bfloat16(const Processor& processor) {
  return processor.allocator.device().kind != DeviceKind::cpu ||
         std::string_view(instruction_set(DType::bfloat16)) != instruction_set(DType::float32);
}

Processor cpu_processor() { return {backend_of(DeviceKind::cpu), host_allocator()}; }

bool multiplies(const Processor& processor, OperandKind operands) {
  const Device device = processor.allocator.device();
  return operands != OperandKind::float8 || device.kind == DeviceKind::cpu ||
         cuda_multiplies_float8(device.index);
}

namespace {

// How many GPUs there are, if the name may mean one; 0: the CPU. UsageError if it needs one that is not
// there.
int gpus_for(const std::string& name) {
  if (!is_device_name(name))
    throw UsageError(fmt::format("there is no device \"{}\"; give {}", name, device_names));
  const int count = name == "cpu" ? 0 : cuda_device_count();
  if (name == "cpu" || name == "auto") return count;
  if (count == 0)
    throw UsageError(
        fmt::format("device \"{}\": {}; run on the CPU with device \"cpu\"", name, why_no_cuda_device()));
  if (device_named(name)->index >= count)
    throw UsageError(fmt::format("there is no device \"{}\": this machine has {} GPU{}, the first is cuda:0",
                                 name, count, count == 1 ? "" : "s"));
  return count;
}

}  // namespace

void require_device(const std::string& name) { gpus_for(name); }

Processor find_processor(const std::string& name, DType compute, OperandKind operands) {
  const bool automatic = name == "auto";
  if (gpus_for(name) == 0) return cpu_processor();  // the CPU supports all types
  const Backend& backend = backend_of(DeviceKind::cuda, operands);
  if (!computes_in(backend, compute)) {
    if (automatic) return cpu_processor();
    throw UsageError(
        fmt::format("device \"{}\" cannot compute in {}; change precision.compute, or run on the "
                    "CPU with device \"cpu\"",
                    name, name_of(compute)));
  }
  const int index = automatic ? 0 : device_named(name)->index;
  const Processor processor{backend, allocator_of({DeviceKind::cuda, index})};
  if (!multiplies(processor, operands))
    throw UsageError(fmt::format(
        "cuda:{} does not multiply 8-bit numbers, which takes compute capability 8.9 (Ada, Hopper "
        "or newer); set precision.compute = \"bf16\"",
        index));
  return processor;
}

}  // namespace comera
