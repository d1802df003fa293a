#include "kernels/backends/processors.h"

#include <string_view>

#include "kernels/backends/backends.h"
#include "kernels/core/check.h"
#include "kernels/core/console.h"
#include "kernels/core/device_name.h"

namespace comera {

namespace {

bool computes_in(const Backend& backend, DType compute) {
  return backend.support(OperationId::MatrixProduct, compute) != Backend::Support::missing;
}

// Said once, since a command may ask several times.
Processor cpu_instead(const std::string& why) {
  static std::string said;
  if (!why.empty() && why != said) log_info("note: this runs on the CPU: {}\n", why);
  if (!why.empty()) said = why;
  return cpu_processor();
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

bool would_be_on_gpu(const std::string& name) {
  if (name.starts_with("cuda")) return true;
  return name != "cpu" && cuda_device_count() > 0 && why_cuda_device_is_unfit(0).empty();
}

bool would_be_faster_in_bfloat16(const std::string& name) {
  return would_be_on_gpu(name) || faster_in_bfloat16(cpu_processor());
}

Processor cpu_processor() { return {backend_of(DeviceKind::cpu), host_allocator()}; }

bool multiplies(const Processor& processor, OperandKind operands) {
  const Device device = processor.allocator.device();
  return operands != OperandKind::float8 || device.kind == DeviceKind::cpu ||
         cuda_multiplies_float8(device.index);
}

GpuReport report_gpus() {
  return {.count = cuda_device_count(),
          .why_none = why_no_cuda_device(),
          .misses_one = misses_cuda_device(),
          .why_unfit = why_cuda_device_is_unfit};
}

namespace {

// UsageError if the name means no device, or a GPU that is not there or is not fit.
void require_device(const std::string& name, const GpuReport& gpus) {
  if (!is_device_name(name))
    throw UsageError(fmt::format("there is no device \"{}\"; give {}", name, device_names));
  if (name == "cpu" || name == "auto") return;
  const auto refuse = [&](const std::string& why) {
    throw UsageError(fmt::format("device \"{}\": {}; run on the CPU with device \"cpu\"", name, why));
  };
  if (gpus.count == 0) refuse(gpus.why_none);
  const int index = device_named(name)->index;
  if (index >= gpus.count)
    throw UsageError(fmt::format("there is no device \"{}\": this machine has {} GPU{}, the first is cuda:0",
                                 name, gpus.count, gpus.count == 1 ? "" : "s"));
  if (const std::string why = gpus.why_unfit(index); !why.empty()) refuse(why);
}

}  // namespace

void require_device(const std::string& name) {
  require_device(name, name == "cpu" || name == "auto" ? GpuReport() : report_gpus());
}

Processor find_processor(const std::string& name, DType compute, OperandKind operands) {
  return find_processor(name, compute, operands, name == "cpu" ? GpuReport() : report_gpus());
}

Processor find_processor(const std::string& name, DType compute, OperandKind operands,
                         const GpuReport& gpus) {
  require_device(name, gpus);
  if (name == "cpu") return cpu_processor();  // it supports all types
  const bool automatic = name == "auto";
  if (automatic && gpus.count == 0) return cpu_instead(gpus.misses_one ? gpus.why_none : "");
  const int index = automatic ? 0 : device_named(name)->index;
  if (automatic)
    if (const std::string why = gpus.why_unfit(index); !why.empty()) return cpu_instead(why);
  const Backend& backend = backend_of(DeviceKind::cuda, operands);
  if (!computes_in(backend, compute)) {
    if (automatic) return cpu_processor();
    throw UsageError(
        fmt::format("device \"{}\" cannot compute in {}; change precision.compute, or run on the "
                    "CPU with device \"cpu\"",
                    name, name_of(compute)));
  }
  const Processor processor{backend, allocator_of({DeviceKind::cuda, index})};
  if (!multiplies(processor, operands))
    throw UsageError(fmt::format(
        "cuda:{} does not multiply 8-bit numbers, which takes compute capability 8.9 (Ada, Hopper "
        "or newer); set precision.compute = \"bf16\"",
        index));
  return processor;
}

}  // namespace comera
