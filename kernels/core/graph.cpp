#include "kernels/core/graph.h"

#include "kernels/core/check.h"

namespace comera {

void Graph::launch() {
  COMERA_CHECK(body_, "a graph without work was launched");
  struct Forbidden {
    Allocator& allocator;
    explicit Forbidden(Allocator& wanted) : allocator(wanted) { allocator.forbid(true); }
    ~Forbidden() { allocator.forbid(false); }
  } const forbidden(*allocator_);
  if (record_ && !recording_) recording_ = allocator_->record(stream_, body_);
  if (recording_)
    recording_->launch(stream_);
  else
    body_();
}

}  // namespace comera
