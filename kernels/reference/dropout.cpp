#include "kernels/ops/elementwise/dropout.h"
#include "kernels/reference/reference_backend.h"

namespace comera::reference {

namespace {

template <class T>
void dropout(const Dropout& op, const KernelContext&) {
  for (std::int64_t i = 0; i < op.x.elements(); ++i) {
    T mask = 1;
    if (op.dropout.active())
      mask = dropout_keeps(static_cast<const StepInputs*>(op.step_inputs.raw())->dropout, op.dropout, i)
                 ? static_cast<T>(op.dropout.scale())
                 : 0;
    op.y.data<T>()[i] = op.x.data<T>()[i] * mask;
  }
}

template <class T>
void register_for(Backend& backend) {
  backend.set<Dropout>(dtype_of<T>, dropout<T>);
}

}  // namespace

void register_dropout(Backend& backend) {
  register_for<float>(backend);
  register_for<double>(backend);
}

}  // namespace comera::reference
