#pragma once

#include "batches/packed_batch.h"
#include "kernels/core/parameter.h"
#include "kernels/ops/context.h"
#include "kernels/shared/step_values.h"

namespace comera {

// What a model's forward and backward are given besides their tensors.
struct Step {
  const Context& context;
  const ParameterStore& store;
  Tensor inputs;         // StepInputs
  Tensor results;        // StepResults
  bool training = true;  // with dropout, and what else only training sees

  DropoutSpec dropout(double probability, std::uint32_t site) const {
    return {training ? probability : 0, site};
  }
};

// The same for the modules of an encoder, which read packed sequences.
struct EncoderStep : Step {
  EncoderStep(const Step& step, const PackedBatch& of) : Step(step), batch(of) {}

  const PackedBatch& batch;
};

// Each dropout of the model has a site of its own, which its mask depends on.
namespace dropout_site {
inline constexpr std::uint32_t embedding = 0;
inline constexpr std::uint32_t pooler = 1;
constexpr std::uint32_t attention(std::uint32_t layer) { return 16 + 4 * layer; }
constexpr std::uint32_t attention_output(std::uint32_t layer) { return 17 + 4 * layer; }
constexpr std::uint32_t feed_forward(std::uint32_t layer) { return 18 + 4 * layer; }
}  // namespace dropout_site

}  // namespace comera
