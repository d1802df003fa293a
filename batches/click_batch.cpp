#include "batches/click_batch.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "kernels/core/check.h"

namespace comera {

namespace {
std::int64_t aligned(std::int64_t elements) { return (elements + 15) / 16 * 16; }
}  // namespace

ClickCapacity ClickCapacity::single(std::int64_t examples, std::int64_t dense_features,
                                    const std::vector<std::int64_t>& rows) {
  ClickCapacity capacity{.examples = examples, .dense_features = dense_features, .tables = {}};
  for (const std::int64_t count : rows)
    capacity.tables.push_back({.ids = examples, .unique_ids = std::min(examples, count)});
  return capacity;
}

std::int64_t ClickBatch::most_ids() const {
  std::int64_t most = 0;
  for (const ClickCapacity::Table& table : capacity.tables) most = std::max(most, table.ids);
  return most;
}

void ClickBatch::lay_out(std::int32_t* base, Device device) {
  static_assert(sizeof(float) == sizeof(std::int32_t));
  const std::int32_t* begin = base;
  const auto take = [&](Shape shape, DType dtype = DType::int32) {
    const Tensor tensor(base, shape, dtype, device);
    base += aligned(shape.elements());
    return tensor;
  };
  dense_features = take({capacity.examples, capacity.dense_features}, DType::float32);
  labels = take({capacity.examples}, DType::float32);
  const auto count = std::ssize(capacity.tables);
  counts = take({1 + 2 * count});
  filled = take({5});
  tables.resize(capacity.tables.size());
  for (std::int64_t t = 0; t < count; ++t) {
    const auto [all, unique] = capacity.tables[t];
    Table& table = tables[t];
    table.offsets = take({capacity.examples + 1});
    table.ids = {.ids = take({all}),
                 .count = counts.slice(1 + 2 * t, {1}),
                 .rows = {},
                 .unique_ids = take({unique}),
                 .unique_count = counts.slice(2 + 2 * t, {1}),
                 .unique_index = take({all}),
                 .unique_order = take({all}),
                 .unique_offsets = take({unique + 1}),
                 .right_order = take({unique})};
  }
  block_bytes_ = static_cast<std::size_t>(base - begin) * sizeof(std::int32_t);
  // After the block, shared by all tables.
  for (std::int64_t t = 0; t < count; ++t)
    tables[t].ids.rows = Tensor(base, {capacity.tables[t].ids}, DType::int32, device);
}

ClickBatch::ClickBatch(Allocator& allocator, const ClickCapacity& wanted) {
  *this = measuring(wanted, allocator.device());  // for the sizes
  memory_ = Buffer(allocator, bytes(), MemoryKind::workspace);
  lay_out(static_cast<std::int32_t*>(memory_.data()), allocator.device());
  std::vector<std::int32_t> rows(static_cast<std::size_t>(most_ids()));
  std::iota(rows.begin(), rows.end(), 0);
  allocator.upload(static_cast<std::byte*>(memory_.data()) + block_bytes_, rows.data(),
                   rows.size() * sizeof(std::int32_t), allocator.stream());
  allocator.synchronize(allocator.stream());
}

ClickBatch ClickBatch::over(void* memory, const ClickCapacity& capacity) {
  ClickBatch batch;
  batch.capacity = capacity;
  batch.lay_out(static_cast<std::int32_t*>(memory), Device{});
  return batch;
}

ClickBatch ClickBatch::measuring(const ClickCapacity& capacity, Device device) {
  ClickBatch batch;
  batch.capacity = capacity;
  batch.lay_out(reinterpret_cast<std::int32_t*>(std::uintptr_t{1} << 46), device);
  return batch;
}

std::vector<std::int32_t> ClickBatch::digest() const {
  std::int64_t ids = 0, unique = 0, place = 0;
  for (const ClickCapacity::Table& table : capacity.tables) {
    ++place;
    ids += place * table.ids, unique += place * table.unique_ids;
  }
  std::vector<std::int32_t> digest;
  for (const std::int64_t number :
       {capacity.examples, capacity.dense_features, std::ssize(capacity.tables), ids, unique})
    digest.push_back(static_cast<std::int32_t>(number));
  return digest;
}

void ClickBatch::check(std::span<const std::byte> block) const {
  bool same = block.size() == block_bytes_;
  if (same) {
    std::vector<std::int32_t> found(5);
    const auto at =
        static_cast<const std::byte*>(filled.raw()) - static_cast<const std::byte*>(this->block());
    std::memcpy(found.data(), block.data() + at, found.size() * sizeof found[0]);
    same = found == digest();
  }
  COMERA_CHECK(
      same,
      "a batch of {} bytes was filled for another capacity than {} examples of {} numbers and {} tables",
      block.size(), capacity.examples, capacity.dense_features, capacity.tables.size());
}

}  // namespace comera
