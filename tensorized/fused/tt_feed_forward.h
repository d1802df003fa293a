#pragma once

#include "kernels/ops/tensor_trains/tt_feed_forward.h"
#include "tensorized/fused/merging.h"
#include "tensorized/linear/tt_linear_layer.h"

namespace comera {

// down(activation(up(x))) of two tensor trains in one pass over the tokens
// (kernels/ops/tensor_trains/tt_feed_forward.h). The inner tensor is never stored, neither before nor after
// the activation. The consumer of y applies down's bias.
class TTFeedForward {
 public:
  // The layers must outlive this object, and either both or neither use float8.
  TTFeedForward(const ParameterStore& store, const TTLinear& up, const TTLinear& down);

  // Why this does not replace the layers for this many tokens on such a machine: it does if the planner
  // evaluates both by left and right factors.
  std::optional<std::string> why_not(const MachineModel& machine, std::int64_t tokens) const;
  // Why a GPU stores the inner tensor nevertheless; nothing if its kernels do not.
  std::optional<std::string> why_inner_is_stored(Activation activation) const;

  // Tensors derived from the cores alone: the left and right factors.
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
  // Writes dx, or adds to it. Adds the gradient of up's bias, and those of cores if `gradients`.
  void backward(const Context& context, const Saved& saved, Activation activation, const Tensor& dy,
                const Tensor& dx, bool accumulate_dx, MergedGradients& gradients) const;

 private:
  // u = x A B + bias, (T, inner), in 8 bits. h = activation(u) is computed when down's operand is quantised.
  Float8LinearForward inner_in_float8(const Saved& saved, const Tensor& u) const;
  void forward_in_float8(const Context& context, const Saved& saved, Activation activation) const;
  void backward_in_float8(const Context& context, const Saved& saved,
                          const TTFeedForwardBackward& gradients) const;

  // Of a diagonal; nothing without one.
  Tensor value_of(const std::optional<ParameterId>& id) const;
  Tensor gradient_of(const std::optional<ParameterId>& id) const;
  bool in_float8() const {
    return up_.float8() && up_.fits_float8() && down_.fits_float8() && !up_.any_diagonal() &&
           !down_.any_diagonal();
  }
  static PackedTensors gradients_of(const Merged& merged) {
    return PackedTensors{merged.a_up.shape(), merged.b_up.shape(), merged.a_down.shape(),
                         merged.b_down.shape()};
  }

  const ParameterStore& store_;
  const TTLinear &up_, &down_;
};

}  // namespace comera
