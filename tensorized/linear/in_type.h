#pragma once

#include "kernels/ops/context.h"
#include "kernels/ops/elementwise/layout.h"

namespace comera {

// A tensor in another type: itself if it is in that type, otherwise a rounded copy, as scratch or kept for
// backward.
inline Tensor in_type(const Context& context, ArenaScope& scope, const Tensor& tensor, DType type) {
  if (tensor.dtype() == type) return tensor;
  const Tensor copy = scope.tensor(tensor.shape(), type);
  run(context, Cast{.x = tensor, .y = copy});
  return copy;
}

// The other way: where to compute what `wanted` is to be in its type. write_back() then rounds it.
class InMasterType {
 public:
  InMasterType(const Context& context, ArenaScope& scope, const Tensor& wanted)
      : context_(context),
        wanted_(wanted),
        master_(wanted.dtype() == master_of(wanted.dtype())
                    ? wanted
                    : scope.tensor(wanted.shape(), master_of(wanted.dtype()))) {}
  const Tensor& tensor() const { return master_; }
  void write_back() const {
    if (master_.dtype() != wanted_.dtype()) run(context_, Cast{.x = master_, .y = wanted_});
  }

 private:
  const Context& context_;
  Tensor wanted_, master_;
};

}  // namespace comera
