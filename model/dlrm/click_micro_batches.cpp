#include "model/dlrm/click_micro_batches.h"

#include <fmt/format.h>

#include <algorithm>

namespace comera {

namespace {

class ClickMicroBatch final : public MicroBatch {
 public:
  ClickMicroBatch(const Dlrm& model, ClickBatch batch, Buffer memory, const Tensor& logits)
      : model_(model), batch_(std::move(batch)), memory_(std::move(memory)), logits_(logits) {}

  void* block() const override { return batch_.block(); }
  std::size_t block_bytes() const override { return batch_.block_bytes(); }
  void check(std::span<const std::byte> block) const override { batch_.check(block); }
  void run(const Step& step, bool gradient) const override {
    model_.run_micro_batch(step, batch_, gradient, logits_);
  }
  const Tensor& answers() const override { return logits_; }

 private:
  const Dlrm& model_;
  ClickBatch batch_;
  Buffer memory_;  // of the logits
  Tensor logits_;
};

}  // namespace

std::size_t ClickMicroBatches::logit_bytes() const {
  return static_cast<std::size_t>(capacity_.examples) * size_of(model_.parameters().dtype());
}

std::size_t ClickMicroBatches::bytes() const {
  return ClickBatch::measuring(capacity_).bytes() + logit_bytes();
}

std::unique_ptr<MicroBatch> ClickMicroBatches::allocate(Allocator& allocator) const {
  Buffer memory(allocator, logit_bytes(), MemoryKind::workspace);
  const Tensor logits = memory.tensor({capacity_.examples, 1}, model_.parameters().dtype());
  return std::make_unique<ClickMicroBatch>(model_, ClickBatch(allocator, capacity_), std::move(memory),
                                           logits);
}

std::unique_ptr<MicroBatch> ClickMicroBatches::measuring(Device device) const {
  ClickBatch batch = ClickBatch::measuring(capacity_, device);
  const Tensor logits(batch.block(), {capacity_.examples, 1}, model_.parameters().dtype(), device);
  return std::make_unique<ClickMicroBatch>(model_, std::move(batch), Buffer(), logits);
}

std::string ClickMicroBatches::text() const {
  return fmt::format("a micro-batch of {} examples", capacity_.examples);
}

ClickMicroBatches ClickMicroBatches::with_examples(std::int64_t examples) const {
  ClickCapacity capacity = capacity_;
  capacity.examples = examples;
  const auto part = [&](std::int64_t of) {
    return (of * examples + capacity_.examples - 1) / capacity_.examples;
  };
  for (ClickCapacity::Table& table : capacity.tables) {
    table.ids = part(table.ids);
    table.unique_ids = std::min(table.unique_ids, table.ids);
  }
  return {model_, capacity};
}

std::string ClickMicroBatches::how_to_fit(const std::function<bool(const PackLayout&)>& fits) const {
  std::int64_t least = 0, most = capacity_.examples;
  while (least < most) {
    const std::int64_t middle = (least + most + 1) / 2;
    if (fits(with_examples(middle)))
      least = middle;
    else
      most = middle - 1;
  }
  if (least > 0) return fmt::format("set examples_per_micro_batch to {} or less", least);
  return "not even one example fits: make the model smaller";
}

}  // namespace comera
