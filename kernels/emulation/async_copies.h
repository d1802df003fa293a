#pragma once

// Asynchronous copies of a thread, with the interface of kernels/cuda/products/async_copies.h.

#include <cstdint>
#include <cstring>

#include "kernels/emulation/block.h"

namespace comera::emulation {

// A copy may complete as soon as it is started, or only when it is waited for: copies alternate between both,
// so that tests detect code that relies on either.
class AsyncCopies {
 public:
  void add(void* to, const void* from, bool real) {
    if (reinterpret_cast<std::uintptr_t>(to) % bytes != 0 ||
        (real && reinterpret_cast<std::uintptr_t>(from) % bytes != 0))
      kernel_error("an asynchronous copy does not begin at a multiple of 16 bytes");
    const Copy copy{to, real ? from : nullptr};
    early_ = !early_;
    if (early_) return copy.make();
    if (count_ == most) kernel_error("more asynchronous copies are on their way than the emulation keeps");
    late_[count_++] = copy;
  }
  void wait() {
    for (int i = 0; i < count_; ++i) late_[i].make();
    count_ = 0;
  }

 private:
  static constexpr std::size_t bytes = 16;
  static constexpr int most = 64;
  struct Copy {
    void* to;
    const void* from;  // null: zeros
    void make() const {
      if (from != nullptr)
        std::memcpy(to, from, bytes);
      else
        std::memset(to, 0, bytes);
    }
  };
  Copy late_[most];
  int count_ = 0;
  bool early_ = false;
};

}  // namespace comera::emulation
