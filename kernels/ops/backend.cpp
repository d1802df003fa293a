#include "kernels/ops/backend.h"

#include "kernels/core/check.h"
#include "kernels/ops/compositions.h"

namespace comera {

Backend::Backend(std::string_view name, Device device, const MachineModel& machine)
    : name_(name), device_(device), machine_(machine) {
  register_compositions(*this);
}

std::size_t Backend::index(OperationId operation, DType compute) {
  int type = 0;
  switch (compute) {
    case DType::float32:
      break;
    case DType::float64:
      type = 1;
      break;
    case DType::bfloat16:
      type = 2;
      break;
    default:
      throw_error(fmt::format("{} cannot compute in {}", operation_names[static_cast<int>(operation)],
                              name_of(compute)));
  }
  return static_cast<std::size_t>(operation) * dtypes + type;
}

Backend::Support Backend::support(OperationId operation, DType compute) const {
  const Slot& slot = slots_[index(operation, compute)];
  if (slot.kernel != nullptr) return Support::native;
  return slot.composition != nullptr ? Support::composed : Support::missing;
}

const Backend::Slot& Backend::find(OperationId operation, DType compute) const {
  const Slot& slot = slots_[index(operation, compute)];
  COMERA_CHECK(slot.kernel != nullptr || slot.composition != nullptr, "the {} backend has no {} for {}",
               name_, operation_names[static_cast<int>(operation)], name_of(compute));
  return slot;
}

}  // namespace comera
