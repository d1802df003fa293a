#pragma once

#include "kernels/core/profile.h"
#include "kernels/core/tensors/arena.h"
#include "kernels/ops/backend.h"
#include "kernels/ops/product_log.h"
#include "kernels/ops/work.h"

namespace comera {

// The arguments of every forward and backward: where to run, and where to take memory.
// With a measuring arena nothing is computed: shapes are checked and memory is counted.
struct Context {
  const Backend& backend;
  Arena& arena;
  Stream stream;
  ProductLog* products = nullptr;  // in a dry run that logs its products

  bool dry_run() const { return arena.is_measuring(); }
};

// For the profile.
template <class Operation>
Work profiled_work(const Operation& operation) {
  if (!ProfileScope::enabled()) return {};
  Work work = work_of(operation);
  if (operation.compute() != DType::bfloat16) work.wide_flops = work.flops;
  return work;
}

// Checks an operation, finds its kernel by the operation's compute type and runs it.
template <class Operation>
void run(const Context& context, const Operation& operation) {
  constexpr OperationId id = OperationIdOf<Operation>::value;
  operation.check();
  const Backend::Slot& slot = context.backend.find(id, operation.compute());
  const bool logging = context.products != nullptr;
  if (logging && log_product(*context.products, operation)) return;
  const bool fits =
      slot.kernel != nullptr &&
      (slot.fits == nullptr || reinterpret_cast<bool (*)(const Operation&)>(slot.fits)(operation));
  if (!fits || (logging && slot.composition != nullptr)) {
    COMERA_CHECK(slot.composition != nullptr, "{} of backend {} takes no operation of these sizes",
                 operation_names[static_cast<int>(id)], context.backend.name());
    reinterpret_cast<void (*)(const Operation&, const Context&)>(slot.composition)(operation, context);
    return;
  }
  ArenaScope scope(context.arena);
  KernelContext kernel_context{context.stream, nullptr, 0};
  if (slot.scratch != nullptr) {
    const std::size_t bytes = reinterpret_cast<std::size_t (*)(const Operation&)>(slot.scratch)(operation);
    const Tensor scratch = scope.tensor({static_cast<std::int64_t>(bytes)}, DType::uint8);
    kernel_context.scratch = static_cast<std::byte*>(scratch.raw());
    kernel_context.scratch_bytes = bytes;
  }
  if (context.dry_run()) return;
  ProfileScope profile(operation_names[static_cast<int>(id)], profiled_work(operation));
  reinterpret_cast<void (*)(const Operation&, const KernelContext&)>(slot.kernel)(operation, kernel_context);
}

}  // namespace comera
