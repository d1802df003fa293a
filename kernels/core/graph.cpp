#include "kernels/core/graph.h"

namespace comera {

void Graph::launch() const {
  struct Forbidden {
    Allocator& allocator;
    explicit Forbidden(Allocator& wanted) : allocator(wanted) { allocator.forbid(true); }
    ~Forbidden() { allocator.forbid(false); }
  } const forbidden(*allocator_);
  body_();
}

}  // namespace comera
