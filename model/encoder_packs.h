#pragma once

#include "batches/packed_batch.h"
#include "model/model.h"
#include "model/trainable.h"

namespace comera {

// Packed sequences of tokens for an encoder. The model must outlive this and the packs.
class EncoderPacks final : public PackLayout {
 public:
  EncoderPacks(const Model& model, const PackCapacity& capacity) : model_(model), capacity_(capacity) {}

  std::unique_ptr<Pack> allocate(Allocator& allocator) const override;
  std::unique_ptr<Pack> measuring(Device device) const override;
  const Trainable& model() const override { return model_; }
  std::size_t bytes() const override;
  std::string text() const override;
  std::string how_to_fit(const std::function<bool(const PackLayout&)>& fits) const override;

 private:
  EncoderPacks with_tokens(std::int64_t tokens) const;
  std::int64_t tokens_that_fit(const std::function<bool(const PackLayout&)>& fits) const;

  const Model& model_;
  PackCapacity capacity_;
};

}  // namespace comera
