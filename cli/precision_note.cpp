#include "cli/precision_note.h"

namespace comera::cli {

std::string precision_note(const Recipe& recipe, bool on_gpu, bool faster_in_bfloat16) {
  if (recipe.dlrm) return "";
  const Compute compute = recipe.precision.compute;
  if (compute == Compute::fp32 && faster_in_bfloat16)
    return "note: training is faster and takes less memory in bfloat16 on this machine: --set "
           "precision.compute=bf16 (docs/guide/precision.md)\n";
  const bool in_8_bits = compute == Compute::fp8 || compute == Compute::fp8_fp32;
  if (in_8_bits && on_gpu && recipe.tensorized.enabled)
    return "note: on a GPU 8-bit products of tensor trains are slower than bfloat16, since memory limits "
           "them: "
           "--set precision.compute=bf16 (docs/guide/precision.md)\n";
  return "";
}

}  // namespace comera::cli
