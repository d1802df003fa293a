#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "batches/click_batch.h"

namespace comera::data {

// A batch being filled on the host: the arrays of a ClickBatch of that capacity, in one block.
class Clicks {
 public:
  // right_rows: per table, the right rows of its TTM (id % right_rows is the index of the right row), or 0
  // where that order is not needed.
  Clicks(const ClickCapacity& capacity, std::vector<std::int64_t> right_rows);

  // Resets everything to 0.
  void clear();
  // bags: the ids of each table. Error if it does not fit.
  void add(std::span<const float> dense_features, const std::vector<std::span<const std::int32_t>>& bags,
           float label);
  // The same for bags of one id: ids has one per table.
  void add(std::span<const float> dense_features, std::span<const std::int32_t> ids, float label);
  // Fills in what depends on all ids. Error if an id is negative, or more distinct ids occur than fit.
  void finish();

  std::int32_t examples() const { return examples_; }
  // The block to upload to a device; complete after finish().
  std::span<const std::byte> block() const { return std::as_bytes(std::span(block_)); }
  const ClickBatch& arrays() const { return arrays_; }

 private:
  void add_numbers(std::span<const float> dense_features, std::size_t bags, float label);
  void add_id(std::size_t table, std::int32_t id);
  void end_bag(std::size_t table);
  void finish_table(std::size_t table);

  std::vector<std::int64_t> right_rows_;
  std::vector<std::int32_t> block_;
  ClickBatch arrays_;                            // views of the block
  std::vector<std::vector<std::int32_t>> bags_;  // per table, the bag of each id
  std::int32_t examples_ = 0;
};

}  // namespace comera::data
