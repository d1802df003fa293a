#pragma once

#include <functional>

#include "kernels/core/memory.h"

namespace comera {

// A recorded sequence of operations that is launched again and again. On the CPU it simply runs again, and
// throws if it allocates device memory, so that the rule 'a step allocates nothing' is tested on every
// machine.
class Graph {
 public:
  Graph() = default;
  Graph(Allocator& allocator, const Stream& stream, std::function<void()> body)
      : allocator_(&allocator), stream_(stream), body_(std::move(body)) {}

  void launch() const;

 private:
  Allocator* allocator_ = nullptr;
  Stream stream_;
  std::function<void()> body_;
};

}  // namespace comera
