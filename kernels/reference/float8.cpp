#include "kernels/ops/products/float8.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/reference/activations.h"
#include "kernels/reference/reference_backend.h"
#include "kernels/shared/float8_code.h"
#include "kernels/shared/step_values.h"

namespace comera::reference {

namespace {

Float8Scale& scale_in(const Tensor& tensor) { return *static_cast<Float8Scale*>(tensor.raw()); }

// A NaN is larger than everything, as in comparisons of magnitude bits.
float larger(float a, float b) { return std::isnan(a) || a > b ? a : b; }

template <class F, class T>
void quantize_to(const Float8Quantize& op) {
  const auto value = [&, x = op.x.data<T>()](std::int64_t row, std::int64_t column) {
    return static_cast<float>(activate(op.activation, x[row * op.leading() + column]));
  };
  Float8Scale& scale = scale_in(op.scale);
  float amax = 0;
  for (std::int64_t row = 0; row < op.rows; ++row)
    for (std::int64_t column = 0; column < op.columns; ++column)
      amax = larger(std::abs(value(row, column)), amax);
  using Scaling = Float8Quantize::Scaling;
  if (op.scaling == Scaling::current) {
    scale.amax = amax;
    set_float8_scale(amax, F::largest, op.margin, scale);
  } else if (op.scaling == Scaling::delayed) {
    scale.amax = larger(amax, scale.amax);
  }
  F* y = op.y ? op.y.data<F>() : nullptr;
  F* transposed = op.transposed ? op.transposed.data<F>() : nullptr;
  const std::int64_t rows = float8_padded(op.rows), columns = float8_padded(op.columns);
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t column = 0; column < columns; ++column) {
      F code{};
      if (row < op.rows && column < op.columns) code = float8_code<F>(value(row, column), scale.scale);
      if (y != nullptr) y[row * columns + column] = code;
      if (transposed != nullptr) transposed[column * rows + row] = code;
    }
}

template <class T>
void quantize(const Float8Quantize& op, const KernelContext&) {
  if (op.type() == DType::float8_e4m3)
    quantize_to<float8_e4m3, T>(op);
  else
    quantize_to<float8_e5m2, T>(op);
}

template <class T>
void expand(const Float8Expand& op, const KernelContext&) {
  const float inverse = scale_in(op.scale).inverse;
  T* y = op.y.data<T>();
  const auto from = [&](const auto* x) {
    for (std::int64_t i = 0; i < op.x.elements(); ++i)
      y[i] = static_cast<T>(static_cast<float>(x[i]) * inverse);
  };
  if (op.x.dtype() == DType::float8_e4m3)
    from(op.x.data<float8_e4m3>());
  else
    from(op.x.data<float8_e5m2>());
}

void next_scales(const Float8NextScales& op, const KernelContext&) {
  const std::int64_t count = op.history.dim(0), length = op.history.dim(1);
  auto* scales = static_cast<Float8Scale*>(op.scales.raw());
  const bool finite = static_cast<const StepResults*>(op.results.raw())->nonfinite == 0;
  auto& position = *op.position.data<std::int64_t>();
  for (std::int64_t i = 0; i < count; ++i) {
    float* history = op.history.data<float>() + i * length;
    const float amax = scales[i].amax;
    scales[i].amax = 0;
    if (!finite) continue;
    if (amax <= std::numeric_limits<float>::max()) history[position % length] = amax;
    set_float8_scale(*std::max_element(history, history + length), op.largest.data<float>()[i], op.margin,
                     scales[i]);
  }
  if (finite) ++position;
}

template <class T>
void register_for(Backend& backend) {
  backend.set<Float8Quantize>(dtype_of<T>, quantize<T>);
  backend.set<Float8Expand>(dtype_of<T>, expand<T>);
}

}  // namespace

void register_float8(Backend& backend) {
  register_for<float>(backend);
  register_for<double>(backend);
  backend.set<Float8NextScales>(DType::float32, next_scales);
}

}  // namespace comera::reference
