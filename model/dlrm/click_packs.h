#pragma once

#include "model/dlrm/dlrm.h"

namespace comera {

// Batches of clicks for a DLRM. The model must outlive this and the packs.
class ClickPacks final : public PackLayout {
 public:
  ClickPacks(const Dlrm& model, ClickCapacity capacity) : model_(model), capacity_(std::move(capacity)) {}

  std::unique_ptr<Pack> allocate(Allocator& allocator) const override;
  std::unique_ptr<Pack> measuring(Device device) const override;
  const Trainable& model() const override { return model_; }
  std::size_t bytes() const override;
  std::string text() const override;
  std::string how_to_fit(const std::function<bool(const PackLayout&)>& fits) const override;

  // (B, 1), of the master type: what the last run of a pack of such a layout without gradient answered.
  static const Tensor& logits_of(const Pack& pack);

 private:
  std::size_t logit_bytes() const;
  ClickPacks with_examples(std::int64_t examples) const;

  const Dlrm& model_;
  ClickCapacity capacity_;
};

}  // namespace comera
