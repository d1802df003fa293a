#pragma once

#include "batches/packed_batch.h"
#include "model/model.h"
#include "model/teacher.h"
#include "model/trainable.h"

namespace comera {

// Makes room for the targets of a head other than a masked-language one.
void make_room_for_targets(HeadKind head, MicroBatchCapacity& capacity);

// Packed sequences of tokens for an encoder. A student is answered by the teacher, or by what a batch keeps
// of its answers, if its capacity has room for them. The model, and the teacher if there is one, must outlive
// this and the micro-batches.
class EncoderMicroBatches final : public PackLayout {
 public:
  EncoderMicroBatches(const Model& model, const MicroBatchCapacity& capacity, Teacher* teacher = nullptr)
      : model_(model), capacity_(capacity), teacher_(teacher) {}

  std::unique_ptr<MicroBatch> allocate(Allocator& allocator) const override;
  std::unique_ptr<MicroBatch> measuring(Device device) const override;
  const Trainable& model() const override { return model_; }
  std::size_t bytes() const override;
  std::string text() const override;
  std::string how_to_fit(const std::function<bool(const PackLayout&)>& fits) const override;

 private:
  EncoderMicroBatches with_tokens(std::int64_t tokens) const;
  std::int64_t tokens_that_fit(const std::function<bool(const PackLayout&)>& fits) const;

  const Model& model_;
  MicroBatchCapacity capacity_;
  Teacher* teacher_;
};

}  // namespace comera
