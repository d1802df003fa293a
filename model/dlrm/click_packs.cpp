#include "model/dlrm/click_packs.h"

#include <fmt/format.h>

#include <algorithm>

namespace comera {

namespace {

class ClickPack final : public Pack {
 public:
  ClickPack(const Dlrm& model, ClickBatch batch) : model_(model), batch_(std::move(batch)) {}

  void* block() const override { return batch_.block(); }
  std::size_t block_bytes() const override { return batch_.block_bytes(); }
  void check(std::span<const std::byte> block) const override { batch_.check(block); }
  void run(const Step& step, bool gradient) const override { model_.run_pack(step, batch_, gradient); }

 private:
  const Dlrm& model_;
  ClickBatch batch_;
};

}  // namespace

std::unique_ptr<Pack> ClickPacks::allocate(Allocator& allocator) const {
  return std::make_unique<ClickPack>(model_, ClickBatch(allocator, capacity_));
}

std::unique_ptr<Pack> ClickPacks::measuring(Device device) const {
  return std::make_unique<ClickPack>(model_, ClickBatch::measuring(capacity_, device));
}

std::string ClickPacks::text() const { return fmt::format("a pack of {} examples", capacity_.examples); }

ClickPacks ClickPacks::with_examples(std::int64_t examples) const {
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

std::string ClickPacks::how_to_fit(const std::function<bool(const PackLayout&)>& fits) const {
  std::int64_t least = 0, most = capacity_.examples;
  while (least < most) {
    const std::int64_t middle = (least + most + 1) / 2;
    if (fits(with_examples(middle)))
      least = middle;
    else
      most = middle - 1;
  }
  if (least > 0) return fmt::format("set examples_per_pack to {} or less", least);
  return "not even one example fits: make the model smaller";
}

}  // namespace comera
