#include "kernels/ops/products/float8.h"

#include "kernels/ops/checks.h"
#include "kernels/ops/work_parts.h"
#include "kernels/shared/step_values.h"

namespace comera {

namespace {

void check_scales(const char* operation, const char* name, const Tensor& scales, std::int64_t count) {
  check_elements(operation, name, scales, count * static_cast<std::int64_t>(sizeof(Float8Scale)),
                 DType::uint8);
}

void check_float8(const char* operation, const char* name, DType type) {
  COMERA_CHECK(is_float8(type), "{}: {} must be of an 8-bit type, not {}", operation, name, name_of(type));
}

void check_operand(const char* name, const Tensor& tensor, std::int64_t rows, std::int64_t columns,
                   std::int64_t ld) {
  check_float8("Float8Product", name, tensor.dtype());
  COMERA_CHECK(ld >= columns && ld % float8_multiple == 0,
               "Float8Product: {} has rows of {} elements {} apart, expected at least as many and a multiple "
               "of {}",
               name, columns, ld, float8_multiple);
  COMERA_CHECK(rows == 0 || (rows - 1) * ld + columns <= tensor.elements(),
               "Float8Product: {} {} is too small for {} x {} with rows {} apart", name,
               tensor.shape().text(), rows, columns, ld);
}

// Checks of a layer's shapes, shared by both passes.
template <class Linear>
void check_linear(const char* name, const Linear& op, const Tensor& scales, const Float8Outputs& slots) {
  const std::int64_t inputs = op.x.dim(1), total = op.a.dim(1);
  COMERA_CHECK(op.a.dtype() == op.compute() || op.a.dtype() == master_of(op.compute()),
               "{}: a must be {} or {}, not {}", name, name_of(op.compute()),
               name_of(master_of(op.compute())), name_of(op.a.dtype()));
  COMERA_CHECK(inputs % float8_multiple == 0 && total % float8_multiple == 0,
               "{}: {} inputs and {} columns of a are no multiples of {}", name, inputs, total,
               float8_multiple);
  for (int i = 0; i < op.outputs; ++i) {
    const auto& out = op.output[i];
    COMERA_CHECK(slots[i] >= 0 && slots[i] < max_group_outputs, "{}: output {} has no slot {}", name, i,
                 slots[i]);
    COMERA_CHECK(out.b.dim(1) % float8_multiple == 0 && out.column % float8_multiple == 0 &&
                     out.column + float8_padded(out.b.dim(0)) <= total,
                 "{}: output {} of {} x {} at column {} of {} is not padded to multiples of {}", name, i,
                 out.b.dim(0), out.b.dim(1), out.column, total, float8_multiple);
  }
  check_scales(name, "scales", scales, Float8Slots::count);
}

}  // namespace

void Float8Quantize::check() const {
  const char* name = "Float8Quantize";
  COMERA_CHECK(y || transposed, "{}: nothing is asked for", name);
  check_activation(name, activation);
  check_float8(name, y ? "y" : "transposed", type());
  COMERA_CHECK(rows >= 0 && columns >= 0 && leading() >= columns &&
                   (rows == 0 || (rows - 1) * leading() + columns <= x.elements()),
               "{}: x {} is too small for {} x {} with rows {} apart", name, x.shape().text(), rows, columns,
               leading());
  const std::int64_t padded_rows = float8_padded(rows), padded_columns = float8_padded(columns);
  check_scales(name, "scale", scale, 1);
  check_optional(name, "y", y, {padded_rows, padded_columns}, type());
  check_optional(name, "transposed", transposed, {padded_columns, padded_rows}, type());
}

Work work_of(const Float8Quantize& op) {
  const double x = bytes_of(op.rows * op.columns, op.compute());
  return {0, (op.scaling == Float8Quantize::Scaling::current ? 2 : 1) * x + once(op.y, op.transposed)};
}

void Float8Expand::check() const {
  check_float8("Float8Expand", "x", x.dtype());
  check_scales("Float8Expand", "scale", scale, 1);
  check_elements("Float8Expand", "y", y, x.elements(), compute());
}

Work work_of(const Float8Expand& op) { return {0, once(op.x, op.y)}; }

void Float8Product::check() const {
  const char* name = "Float8Product";
  COMERA_CHECK(m >= 0 && n >= 0 && k >= 0, "{}: impossible size {} x {} x {}", name, m, n, k);
  COMERA_CHECK(n % float8_multiple == 0 && k % float8_multiple == 0 && leading_c() % float8_multiple == 0,
               "{}: n {}, k {} and rows of c {} apart must be multiples of {}", name, n, k, leading_c(),
               float8_multiple);
  check_operand("a", a, m, k, leading_a());
  check_operand("b", b, n, k, leading_b());
  COMERA_CHECK(a.dtype() != DType::float8_e5m2 || b.dtype() != DType::float8_e5m2,
               "{}: tensor cores do not multiply E5M2 by E5M2", name);
  COMERA_CHECK(c.dtype() == type || c.dtype() == master_of(type), "{}: c must be {} or {}, not {}", name,
               name_of(type), name_of(master_of(type)), name_of(c.dtype()));
  COMERA_CHECK(leading_c() >= n && (m == 0 || (m - 1) * leading_c() + n <= c.elements()),
               "{}: c {} is too small for {} x {} with rows {} apart", name, c.shape().text(), m, n,
               leading_c());
  check_scales(name, "scale_a", scale_a, 1);
  check_scales(name, "scale_b", scale_b, 1);
}

Work work_of(const Float8Product& op) {
  const double c = bytes_of(op.m * op.n, op.c.dtype());
  return {product(op.m, op.n, op.k), static_cast<double>((op.m + op.n) * op.k) + (op.accumulate ? 2 : 1) * c};
}

void Float8LinearForward::check() const {
  linear.check(linear.a.dtype());
  check_linear("Float8LinearForward", linear, scales, outputs);
}

Work work_of(const Float8LinearForward& op) { return work_of(op.linear); }

void Float8LinearBackward::check() const {
  linear.check(linear.a.dtype());
  check_linear("Float8LinearBackward", linear, scales, outputs);
  check_float8("Float8LinearBackward", "the type of gradients", options.gradients);
}

Work work_of(const Float8LinearBackward& op) { return work_of(op.linear); }

void Float8NextScales::check() const {
  const char* name = "Float8NextScales";
  const std::int64_t count = largest.elements();
  check_scales(name, "scales", scales, count);
  check_elements(name, "largest", largest, count, DType::float32);
  COMERA_CHECK(history.shape().dims() == 2 && history.dim(0) == count && history.dim(1) > 0,
               "{}: the history {} is not one of {} tensors", name, history.shape().text(), count);
  check_elements(name, "history", history, history.elements(), DType::float32);
  check_elements(name, "position", position, 1, DType::int64);
  check_step_values(name, "results", results, sizeof(StepResults));
}

Work work_of(const Float8NextScales& op) { return {0, twice(op.scales, op.history) + once(op.largest)}; }

}  // namespace comera
