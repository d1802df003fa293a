#pragma once

#include "kernels/ops/tensor_trains/tt_feed_forward.h"
#include "tensorized/fused/merging.h"
#include "tensorized/linear/tt_linear_layer.h"

namespace comera {

// down(activation(up(x))) of two tensor trains in one pass over the tokens
// (kernels/ops/tensor_trains/tt_feed_forward.h): the inner tensor is never kept, neither before nor after the
// activation. down's bias is left to who uses y.
class TTFeedForward {
 public:
  // The layers must outlive this, and both or none of them use float8.
  TTFeedForward(const ParameterStore& store, const TTLinear& up, const TTLinear& down);

  // Whether the planner takes both layers by halves for so many tokens on such a machine.
  bool pays(const MachineModel& machine, std::int64_t tokens) const;

  // What is made of the cores alone: the halves.
  struct Merged {
    Tensor a_up, b_up, a_down, b_down;
  };
  Merged merge(Merging& merging) const;

  struct Saved {
    Tensor x;
    Merged merged;
    Tensor xa;            // (T, r_up)
    Tensor ha;            // (T, r_down)
    Tensor y;             // (T, outputs)
    bool float8 = false;  // with 8-bit operands: columns of xa and ha are padded to 16
  };
  Saved forward(const Context& context, const Merged& merged, const Tensor& x, Activation activation) const;
  // dx is written, or added to. The gradient of up's bias is added, those of cores when `gradients` are.
  void backward(const Context& context, const Saved& saved, Activation activation, const Tensor& dy,
                const Tensor& dx, bool accumulate_dx, MergedGradients& gradients) const;

 private:
  // u = x A B + bias, (T, inner), in 8 bits. h = activation(u) is made where down's operand is quantised.
  Float8LinearForward inner_in_float8(const Saved& saved, const Tensor& u) const;
  void forward_in_float8(const Context& context, const Saved& saved, Activation activation) const;
  void backward_in_float8(const Context& context, const Saved& saved,
                          const TTFeedForwardBackward& gradients) const;

  bool in_float8() const { return up_.float8() && up_.fits_float8() && down_.fits_float8(); }
  static PackedTensors gradients_of(const Merged& merged) {
    return PackedTensors{merged.a_up.shape(), merged.b_up.shape(), merged.a_down.shape(),
                         merged.b_down.shape()};
  }

  const ParameterStore& store_;
  const TTLinear &up_, &down_;
};

}  // namespace comera
