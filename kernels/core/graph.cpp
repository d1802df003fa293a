#include "kernels/core/graph.h"

#include "kernels/core/console.h"

namespace comera {

void Graph::launch() {
  COMERA_CHECK(body_, "a graph without work was launched");
  struct Forbidden {
    Allocator& allocator;
    explicit Forbidden(Allocator& wanted) : allocator(wanted) { allocator.forbid(true); }
    ~Forbidden() { allocator.forbid(false); }
  } const forbidden(*allocator_);
  if (record_ && has_run_ && !recording_) record();
  if (recording_)
    recording_->launch(stream_);
  else
    body_();
  has_run_ = true;
}

// If the work itself is faulty, running it unrecorded reveals the error.
void Graph::record() {
  std::string fault;
  try {
    recording_ = allocator_->record(stream_, body_);
  } catch (const Error& error) {
    fault = error.what();
  }
  record_ = recording_ != nullptr;
  if (agree_ && (record_ || !fault.empty())) agree_(fault);
  if (!fault.empty())
    log_info("note: the step could not be recorded as a graph, and continues without one: {}\n", fault);
}

}  // namespace comera
