#pragma once

#include <array>
#include <vector>

#include "batches/packed_batch.h"
#include "kernels/ops/elementwise/cross_entropy.h"
#include "model/step.h"

namespace comera {

struct MergedEncoder;

// A teacher's answers to a micro-batch, in the arena; empty where nothing is learned from them.
struct TeacherAnswers {
  Tensor hidden;                    // (T, width) of tokens, in the type of activations
  std::vector<Tensor> layers;       // the same behind blocks as deep as the student's but the last
  Tensor vectors;                   // (S, width) of sequences, in the type of activations
  std::array<Tensor, 3> relations;  // (T, width): queries, keys and values of the last block, the same
  Tensor logits;                    // (masked positions or examples, outputs), in the type of parameters
};

// What else an encoder's forward pass gives: copies of all rows (T, hidden), where there is memory for them.
struct InnerStates {
  std::array<Tensor, 3> qkv;   // queries, keys and values of the last block
  std::vector<Tensor> layers;  // the output of each block
};

// A step for the modules of an encoder, which read packed sequences.
struct EncoderStep : Step {
  EncoderStep(const Step& step, const PackedBatch& of, const MergedEncoder* of_cores = nullptr,
              const TeacherAnswers* of_teacher = nullptr)
      : Step(step), batch(of), merged(of_cores), teacher(of_teacher) {}

  const PackedBatch& batch;
  const MergedEncoder* merged;    // always set for modules; null in a step: the model computes it
  const TeacherAnswers* teacher;  // null: nothing is learned from one
  ClassDraws draws = {};          // of a generator's head, for each masked position; empty: none
  Tensor replaced = {};           // float32 (T), of a discriminator: 1 where a token has been replaced
};

// Each dropout of the model has its own site, which its mask depends on.
namespace dropout_site {
inline constexpr std::uint32_t embedding = 0;
inline constexpr std::uint32_t pooler = 1;
inline constexpr std::uint32_t draws = 2;             // of a generator's ids
inline constexpr std::uint32_t generator = 1U << 16;  // is added to the sites of a generator's layers
constexpr std::uint32_t attention(std::uint32_t layer) { return 16 + 4 * layer; }
constexpr std::uint32_t attention_output(std::uint32_t layer) { return 17 + 4 * layer; }
constexpr std::uint32_t feed_forward(std::uint32_t layer) { return 18 + 4 * layer; }
}  // namespace dropout_site

}  // namespace comera
