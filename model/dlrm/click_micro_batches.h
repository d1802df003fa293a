#pragma once

#include "model/dlrm/dlrm.h"

namespace comera {

// Batches of clicks for a DLRM. The model must outlive this and the micro-batches.
class ClickMicroBatches final : public PackLayout {
 public:
  ClickMicroBatches(const Dlrm& model, ClickCapacity capacity)
      : model_(model), capacity_(std::move(capacity)) {}

  std::unique_ptr<MicroBatch> allocate(Allocator& allocator) const override;
  std::unique_ptr<MicroBatch> measuring(Device device) const override;
  const Trainable& model() const override { return model_; }
  std::size_t bytes() const override;
  std::string text() const override;
  std::string how_to_fit(const std::function<bool(const PackLayout&)>& fits) const override;

  // (B, 1), in the master type: the logits of the last run without gradient of any micro-batch with this
  // layout.
  static const Tensor& logits_of(const MicroBatch& micro_batch);

 private:
  std::size_t logit_bytes() const;
  ClickMicroBatches with_examples(std::int64_t examples) const;

  const Dlrm& model_;
  ClickCapacity capacity_;
};

}  // namespace comera
