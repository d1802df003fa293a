#include "data/clicks/click_batch.h"

#include <algorithm>

#include "data/batching/lookup_order.h"
#include "kernels/core/check.h"

namespace comera::data {

namespace {
std::span<std::int32_t> integers(const Tensor& tensor) {
  return {tensor.data<std::int32_t>(), static_cast<std::size_t>(tensor.elements())};
}
}  // namespace

Clicks::Clicks(const ClickCapacity& capacity, std::vector<std::int64_t> right_rows)
    : right_rows_(std::move(right_rows)),
      block_(ClickBatch::measuring(capacity).block_bytes() / sizeof(std::int32_t)),
      arrays_(ClickBatch::over(block_.data(), capacity)),
      bags_(capacity.tables.size()) {
  COMERA_CHECK(right_rows_.size() == capacity.tables.size(), "{} tables have right rows, a batch has {}",
               right_rows_.size(), capacity.tables.size());
}

void Clicks::clear() {
  std::ranges::fill(block_, 0);
  for (auto& bags : bags_) bags.clear();
  examples_ = 0;
}

void Clicks::add_numbers(std::span<const float> dense_features, std::size_t bags, float label) {
  const ClickCapacity& capacity = arrays_.capacity;
  COMERA_CHECK(
      examples_ < capacity.examples && std::ssize(dense_features) == capacity.dense_features &&
          bags == bags_.size(),
      "an example of {} numbers and {} bags does not fit into a batch that holds {} of {} examples of {} "
      "numbers and {} bags",
      dense_features.size(), bags, examples_, capacity.examples, capacity.dense_features, bags_.size());
  std::ranges::copy(dense_features,
                    arrays_.dense_features.data<float>() + examples_ * capacity.dense_features);
  arrays_.labels.data<float>()[examples_] = label;
}

void Clicks::add_id(std::size_t table, std::int32_t id) {
  std::vector<std::int32_t>& bags = bags_[table];
  const std::span<std::int32_t> ids = integers(arrays_.tables[table].ids.ids);
  COMERA_CHECK(bags.size() < ids.size(), "a batch has room for {} ids of table {}", ids.size(), table);
  ids[bags.size()] = id;
  bags.push_back(examples_);
}

void Clicks::end_bag(std::size_t table) {
  integers(arrays_.tables[table].offsets)[examples_ + 1] = static_cast<std::int32_t>(bags_[table].size());
}

void Clicks::add(std::span<const float> dense_features,
                 const std::vector<std::span<const std::int32_t>>& bags, float label) {
  add_numbers(dense_features, bags.size(), label);
  for (std::size_t t = 0; t < bags.size(); ++t) {
    for (const std::int32_t id : bags[t]) add_id(t, id);
    end_bag(t);
  }
  ++examples_;
}

void Clicks::add(std::span<const float> dense_features, std::span<const std::int32_t> ids, float label) {
  add_numbers(dense_features, ids.size(), label);
  for (std::size_t t = 0; t < ids.size(); ++t) add_id(t, ids[t]), end_bag(t);
  ++examples_;
}

// Ids are sorted stably, so that equal ones are in the order of their bags.
void Clicks::finish_table(std::size_t table) {
  const LookupIds& lookup = arrays_.tables[table].ids;
  const auto count = std::ssize(bags_[table]);
  order_ids(lookup, count, right_rows_[table], "table id");
  const std::span<std::int32_t> order = integers(lookup.unique_order);
  for (std::int64_t i = 0; i < count; ++i)
    order[i] = bags_[table][order[i]];  // an index becomes its bag from here on
  *lookup.count.data<std::int32_t>() = static_cast<std::int32_t>(count);
  const std::span<std::int32_t> offsets = integers(arrays_.tables[table].offsets);
  std::fill(offsets.begin() + examples_ + 1, offsets.end(), static_cast<std::int32_t>(count));
}

void Clicks::finish() {
  for (std::size_t t = 0; t < bags_.size(); ++t) finish_table(t);
  *arrays_.counts.data<std::int32_t>() = examples_;
  std::ranges::copy(arrays_.digest(), arrays_.filled.data<std::int32_t>());
}

}  // namespace comera::data
