#pragma once

#include <optional>

#include "kernels/ops/processor.h"
#include "model/forward_step.h"
#include "model/model.h"

namespace comera {

// A trained model that answers a student's micro-batches, forward alone and without dropout.
class Teacher {
 public:
  // The model is in the processor's memory and of the student's number format; both must outlive this.
  // pooling: how its hidden states become vectors. learned: what of its answers is needed. layers: the
  // student's, of which it has no fewer, if those of all are compared.
  Teacher(const Model& model, Pooling pooling, const DistillationConfig& learned, const Processor& processor,
          std::int64_t layers = 1);

  // Computes what depends on its parameters alone, for micro-batches of this capacity.
  void prepare(const MicroBatchCapacity& capacity);
  // In the context's arena, for the caller to release. For micro-batches of another capacity than that of
  // prepare(), as in dry runs, it also computes what that does.
  TeacherAnswers answer(const Context& context, const PackedBatch& batch) const;

  const Model& model() const { return model_; }
  Pooling pooling() const { return pooling_; }

 private:
  EncoderStep step_of(const Context& context, const PackedBatch& batch, const MergedEncoder* merged) const;
  // What the last block computes if hidden states of tokens are not needed.
  std::optional<RowSubset> rows_for_vectors(const PackedBatch& batch) const;

  const Model& model_;
  Pooling pooling_;
  DistillationConfig learned_;
  std::int64_t layers_;
  Processor processor_;
  Stream stream_;
  ForwardStep forward_;
  std::optional<Arena> arena_;  // with what prepare() has computed
  MicroBatchCapacity prepared_for_;
  MergedEncoder for_encoder_, for_logits_;
};

}  // namespace comera
