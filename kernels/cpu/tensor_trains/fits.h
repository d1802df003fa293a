#pragma once

#include "kernels/cpu/diagonals.h"
#include "kernels/ops/tensor_trains/tt_feed_forward.h"
#include "kernels/ops/tensor_trains/tt_linear.h"

// Which operations on tensor trains the kernels support; others are decomposed.
COMERA_CPU_BEGIN

template <class Operation>
bool fits_linear(const Operation& op) {
  for (int i = 0; i < op.outputs; ++i)
    if (!fits_diagonal(op.output[i].diagonal, op.a.dim(0), op.output[i].b.dim(1))) return false;
  return true;
}

// The inner tensor must be the widest.
template <class Operation>
bool fits_feed_forward(const Operation& op) {
  const std::int64_t inputs = op.x.dim(1), inner = op.b_up.dim(1), outputs = op.b_down.dim(1);
  return (!op.diagonal_up || inner >= inputs) && (!op.diagonal_down || inner >= outputs) &&
         fits_diagonal(op.diagonal_up, inputs, inner) && fits_diagonal(op.diagonal_down, inner, outputs);
}

// Null for operations that always fit.
template <class Operation>
constexpr auto fits_kernels() -> bool (*)(const Operation&) {
  return nullptr;
}
template <>
constexpr auto fits_kernels<TTLinearForward>() -> bool (*)(const TTLinearForward&) {
  return fits_linear<TTLinearForward>;
}
template <>
constexpr auto fits_kernels<TTLinearBackward>() -> bool (*)(const TTLinearBackward&) {
  return fits_linear<TTLinearBackward>;
}
template <>
constexpr auto fits_kernels<TTFeedForwardForward>() -> bool (*)(const TTFeedForwardForward&) {
  return fits_feed_forward<TTFeedForwardForward>;
}
template <>
constexpr auto fits_kernels<TTFeedForwardBackward>() -> bool (*)(const TTFeedForwardBackward&) {
  return fits_feed_forward<TTFeedForwardBackward>;
}

COMERA_CPU_END
