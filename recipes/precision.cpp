#include "recipes/recipe.h"

namespace comera {

DType PrecisionSection::activations() const {
  switch (compute) {
    case Compute::bf16:
    case Compute::fp8:
      return DType::bfloat16;
    case Compute::fp64:
      return DType::float64;
    default:
      return DType::float32;
  }
}

OperandKind PrecisionSection::operands() const {
  if (compute == Compute::tf32) return OperandKind::tf32;
  return compute == Compute::fp8 ? OperandKind::float8 : OperandKind::as_they_are;
}

std::optional<Float8Config> PrecisionSection::float8() const {
  if (compute != Compute::fp8) return std::nullopt;
  return Float8Config{
      .scaling = fp8_recipe, .format = fp8_format, .amax_history_len = amax_history_len, .margin = margin};
}

}  // namespace comera
