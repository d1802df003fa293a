#include "kernels/core/tensors/arena.h"

#include <algorithm>

#include "kernels/core/tensors/poison.h"

namespace comera {

namespace {
constexpr std::size_t alignment = 256;  // alignment for the fastest matrix products on a GPU
// For AddressSanitizer there is always an inaccessible gap between two tensors.
std::size_t rounded(std::size_t bytes) {
  return (bytes + alignment - 1) / alignment * alignment + (poisons ? alignment : 0);
}
std::size_t bytes_of(Shape shape, DType dtype) {
  return static_cast<std::size_t>(shape.elements()) * size_of(dtype);
}
// The nominal address of a measuring arena. Never read.
std::byte* const nowhere = reinterpret_cast<std::byte*>(std::uintptr_t{1} << 46);
}  // namespace

Arena::Arena(Allocator& allocator, const Plan& plan, bool immediate)
    : memory_(allocator, plan.total, MemoryKind::activations),
      device_(allocator.device()),
      guarded_(immediate || device_.kind == DeviceKind::cpu),
      base_(static_cast<std::byte*>(memory_.data())),
      capacity_(plan.total) {
  if (guarded_) poison(base_, capacity_);
}

Arena Arena::measuring(Device device) { return Arena(device); }

void Arena::record(std::size_t wanted, const char* what) {
  COMERA_CHECK(measuring_ || wanted <= capacity_,
               "the arena of {} bytes is too small: {} needs {} bytes, more than the dry run measured",
               capacity_, what, wanted);
  peak_.saved = std::max(peak_.saved, bottom_);
  peak_.scratch = std::max(peak_.scratch, top_);
  peak_.total = std::max(peak_.total, wanted);
}

Tensor Arena::saved(Shape shape, DType dtype) {
  std::byte* data = (measuring_ ? nowhere : base_) + bottom_;
  bottom_ += rounded(bytes_of(shape, dtype));
  record(bottom_ + top_, "an activation");
  if (guarded_) unpoison(data, bytes_of(shape, dtype));
  return Tensor(data, shape, dtype, device_);
}

Tensor Arena::scratch(Shape shape, DType dtype) {
  top_ += rounded(bytes_of(shape, dtype));
  record(bottom_ + top_, "scratch");
  std::byte* data = measuring_ ? nowhere : base_ + capacity_ - top_;
  if (guarded_) unpoison(data, bytes_of(shape, dtype));
  return Tensor(data, shape, dtype, device_);
}

void Arena::release(std::size_t mark) {
  COMERA_CHECK(mark <= bottom_, "arena marks must be released in reverse order");
  if (guarded_) poison(base_ + mark, bottom_ - mark);
  bottom_ = mark;
}

void Arena::end_scratch(std::size_t top) {
  if (guarded_) poison(base_ + capacity_ - top_, top_ - top);
  top_ = top;
}

}  // namespace comera
