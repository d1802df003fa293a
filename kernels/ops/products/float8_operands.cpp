#include "kernels/ops/products/float8_operands.h"

namespace comera {

// Evaluations must not change the history of delayed scales; current scales have no history.
Float8Quantize::Scaling Float8Operands::scaling(Seen seen) const {
  using Scaling = Float8Quantize::Scaling;
  if (seen == Seen::again) return Scaling::kept;
  if (!options_.delayed) return Scaling::current;
  return options_.record ? Scaling::delayed : Scaling::kept;
}

Float8Operands::Operand Float8Operands::quantize(int slot, const Tensor& x, std::int64_t rows,
                                                 std::int64_t columns, DType type, Copies copies, Seen seen,
                                                 Activation activation) const {
  const std::int64_t padded_rows = float8_padded(rows), padded_columns = float8_padded(columns);
  Operand operand;
  if (copies != Copies::transposed) operand.straight = scope_.tensor({padded_rows, padded_columns}, type);
  if (copies != Copies::straight) operand.transposed = scope_.tensor({padded_columns, padded_rows}, type);
  run(context_, Float8Quantize{.x = x,
                               .rows = rows,
                               .columns = columns,
                               .activation = activation,
                               .scaling = scaling(seen),
                               .margin = options_.margin,
                               .scale = scale(slot),
                               .y = operand.straight,
                               .transposed = operand.transposed});
  return operand;
}

}  // namespace comera
