#pragma once

#include <functional>
#include <string>

#include "kernels/core/tensors/memory.h"

namespace comera {

// A sequence of operations that is launched repeatedly. A device with recording records it at the second
// launch, after the first one has loaded everything it needs, and from then on only launches the recording.
// If recording fails, a message goes to standard error, and the sequence runs unrecorded. Otherwise, or if it
// is not to be recorded, it simply runs again. In any case it throws if it allocates device memory, so that
// the rule 'a step allocates nothing' is tested on every machine.
class Graph {
 public:
  Graph() = default;
  Graph(Allocator& allocator, const Stream& stream, std::function<void()> body, bool record = true)
      : allocator_(&allocator), stream_(stream), body_(std::move(body)), record_(record) {}

  // Calls agree(fault) after an attempt to record on a device with recording; `fault` is why it failed, or
  // empty. It throws if the work must not go on like that.
  using Agree = std::function<void(const std::string& fault)>;
  void agree_by(Agree agree) { agree_ = std::move(agree); }

  // Throws Error if there is nothing to launch.
  void launch();

 private:
  void record();

  Allocator* allocator_ = nullptr;
  Stream stream_;
  std::function<void()> body_;
  Agree agree_;
  bool record_ = true, has_run_ = false;
  std::unique_ptr<Recording> recording_;
};

}  // namespace comera
