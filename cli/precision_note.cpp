#include "cli/precision_note.h"

#include "kernels/backends/processors.h"

namespace comera::cli {

Compute automatic_compute(const Recipe& recipe, bool faster_in_bfloat16) {
  return faster_in_bfloat16 && !recipe.dlrm ? Compute::bf16 : Compute::fp32;
}

void choose_precision(Recipe& recipe, const std::string& device) {
  Compute& compute = recipe.precision.compute;
  if (compute != Compute::automatic) return;
  const std::string& name = device.empty() ? recipe.run.device : device;
  // A recipe for a GPU may be read without one.
  const bool faster = name.starts_with("cuda") || faster_in_bfloat16(find_processor(name, DType::bfloat16));
  compute = automatic_compute(recipe, faster);
}

std::string precision_note(const Recipe& recipe, bool on_gpu) {
  if (recipe.dlrm) return "";
  const Compute compute = recipe.precision.compute;
  if (compute == Compute::bf16)
    return "note: computes in bfloat16; --set precision.compute=fp32 computes in float32 "
           "(docs/guide/precision.md)\n";
  const bool in_8_bits = compute == Compute::fp8 || compute == Compute::fp8_fp32;
  if (in_8_bits && on_gpu && recipe.tensorized.enabled)
    return "note: on a GPU 8-bit products of tensor trains are slower than bfloat16, since memory limits "
           "them: "
           "--set precision.compute=bf16 (docs/guide/precision.md)\n";
  return "";
}

}  // namespace comera::cli
