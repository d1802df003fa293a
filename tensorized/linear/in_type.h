#pragma once

#include "kernels/ops/context.h"
#include "kernels/ops/elementwise/layout.h"

namespace comera {

// Converts a tensor to another type: returns the tensor itself if it already has that type, otherwise a
// rounded copy, as scratch or kept for backward.
inline Tensor in_type(const Context& context, ArenaScope& scope, const Tensor& tensor, DType type) {
  if (tensor.dtype() == type) return tensor;
  const Tensor copy = scope.tensor(tensor.shape(), type);
  run(context, Cast{.x = tensor, .y = copy});
  return copy;
}

// The opposite direction: a tensor to compute in when `wanted` has another type. write_back() rounds the
// result into `wanted`.
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
