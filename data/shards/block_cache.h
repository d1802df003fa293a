#pragma once

#include <algorithm>
#include <cstdint>
#include <list>
#include <unordered_map>
#include <utility>

namespace comera::data {

// A cache of the most recently used file blocks: as many as fit into `bytes`, and at least two. For one
// thread.
template <class Block>
class BlockCache {
 public:
  BlockCache(std::int64_t bytes, std::int64_t block_bytes)
      : most_(static_cast<std::size_t>(std::max<std::int64_t>(bytes / block_bytes, 2))) {}

  // Block `index` of a file, valid until the next call. If it is not cached, fill(block) reads it into the
  // memory of an evicted block.
  template <class Fill>
  const Block& get(std::size_t file, std::int64_t index, Fill&& fill) {
    const std::int64_t key = (static_cast<std::int64_t>(file) << 40) | index;
    if (const auto found = where_.find(key); found != where_.end()) {
      blocks_.splice(blocks_.begin(), blocks_, found->second);
      return blocks_.front().second;
    }
    Block fresh;
    if (blocks_.size() >= most_) {
      where_.erase(blocks_.back().first);
      fresh = std::move(blocks_.back().second);
      blocks_.pop_back();
    }
    fill(fresh);
    blocks_.emplace_front(key, std::move(fresh));
    where_[key] = blocks_.begin();
    return blocks_.front().second;
  }

  std::size_t most() const { return most_; }

 private:
  using Entry = std::pair<std::int64_t, Block>;
  std::size_t most_;
  std::list<Entry> blocks_;  // latest first
  std::unordered_map<std::int64_t, typename std::list<Entry>::iterator> where_;
};

}  // namespace comera::data
