#include "kernels/core/arena.h"

#include <algorithm>

namespace comera {

namespace {
constexpr std::size_t alignment = 64;
std::size_t rounded(std::size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }
// Where a measuring arena pretends to be. Never read.
std::byte* const nowhere = reinterpret_cast<std::byte*>(std::uintptr_t{1} << 46);
}  // namespace

Arena::Arena(Allocator& allocator, const Plan& plan)
    : memory_(allocator, plan.total, MemoryKind::activations),
      device_(allocator.device()),
      base_(static_cast<std::byte*>(memory_.data())),
      capacity_(plan.total) {}

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
  const std::size_t bytes = rounded(static_cast<std::size_t>(shape.elements()) * size_of(dtype));
  std::byte* data = (measuring_ ? nowhere : base_) + bottom_;
  bottom_ += bytes;
  record(bottom_ + top_, "an activation");
  return Tensor(data, shape, dtype, device_);
}

Tensor Arena::scratch(Shape shape, DType dtype) {
  const std::size_t bytes = rounded(static_cast<std::size_t>(shape.elements()) * size_of(dtype));
  top_ += bytes;
  record(bottom_ + top_, "scratch");
  std::byte* data = measuring_ ? nowhere : base_ + capacity_ - top_;
  return Tensor(data, shape, dtype, device_);
}

void Arena::release(std::size_t mark) {
  COMERA_CHECK(mark <= bottom_, "arena marks must be released in reverse order");
  bottom_ = mark;
}

}  // namespace comera
