#include "model/trainable.h"

#include "kernels/ops/elementwise/layout.h"

namespace comera {

void Trainable::begin_pass(const Context& context, bool training) const {
  if (Float8State* state = float8(); state != nullptr) state->record(training);
  if (store_.compute() != store_.dtype())
    run(context, Cast{.x = store_.all_values(), .y = store_.product_values()});
}

}  // namespace comera
