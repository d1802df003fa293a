#include "cli/precision_note.h"

#include "kernels/backends/processors.h"

namespace comera::cli {

Compute automatic_compute(const Recipe& recipe, bool faster_in_bfloat16) {
  return faster_in_bfloat16 && !recipe.dlrm ? Compute::bf16 : Compute::fp32;
}

void choose_precision(Recipe& recipe, const std::string& device) {
  Compute& compute = recipe.precision.compute;
  if (compute != Compute::automatic) return;
  compute =
      automatic_compute(recipe, would_be_faster_in_bfloat16(device.empty() ? recipe.run.device : device));
}

std::string precision_note(const Recipe& recipe, bool on_gpu) {
  if (recipe.dlrm) return "";
  const Compute compute = recipe.precision.compute;
  if (compute == Compute::bf16)
    return "note: computes in bfloat16 (precision.compute); --set precision.compute=fp32 for float32\n";
  const bool in_8_bits = compute == Compute::fp8 || compute == Compute::fp8_fp32;
  if (in_8_bits && on_gpu && recipe.tensorized.enabled)
    return "note: on a GPU 8-bit products of tensor trains are slower than bfloat16, since memory limits "
           "them: "
           "--set precision.compute=bf16 (docs/guide/precision.md)\n";
  return "";
}

std::string inference_precision_note(const Recipe& recipe) {
  return recipe.precision.activations() == DType::bfloat16
             ? "note: computes in bfloat16, as in training; --set precision.compute=fp32 gives finer "
               "numbers\n"
             : "";
}

}  // namespace comera::cli
