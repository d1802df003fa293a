#pragma once

#include <functional>

#include "kernels/core/tensors/memory.h"

namespace comera {

// A sequence of operations that is launched again and again. A device that can record it does so at the
// second launch, when the first one has loaded all that it needs, and from then on only launches the
// recording; a recording that fails is told on standard error, and the sequence goes on without. Elsewhere,
// or if it is not to be recorded, it simply runs again. Either way it throws if it allocates device memory,
// so that the rule 'a step allocates nothing' is tested on every machine.
class Graph {
 public:
  Graph() = default;
  Graph(Allocator& allocator, const Stream& stream, std::function<void()> body, bool record = true)
      : allocator_(&allocator), stream_(stream), body_(std::move(body)), record_(record) {}

  // Throws Error if there is nothing to launch.
  void launch();

 private:
  void record();

  Allocator* allocator_ = nullptr;
  Stream stream_;
  std::function<void()> body_;
  bool record_ = true, has_run_ = false;
  std::unique_ptr<Recording> recording_;
};

}  // namespace comera
