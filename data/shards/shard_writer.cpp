#include <algorithm>

#include "data/shards/shard.h"
#include "storage/durable_file.h"
#include "storage/folder.h"

namespace comera::data {
namespace {

constexpr std::size_t buffered_tokens = 1 << 18;

}  // namespace

ShardWriter::ShardWriter(std::filesystem::path folder, ShardInfo info, std::int64_t tokens_per_shard)
    : folder_(std::move(folder)),
      info_(std::move(info)),
      limit_(tokens_per_shard),
      files_(folder_, info_.split, shard_seal) {
  COMERA_CHECK(limit_ > 0, "a shard must hold at least one token, the limit is {}", limit_);
}

void ShardWriter::open() {
  storage::hdf5::File& file = files_.open();
  tokens_ = file.create_dataset("tokens", DType::int32);
  if (info_.segment_ids) segment_ids_ = file.create_dataset("segment_ids", DType::int32);
  offsets_.assign(1, 0);
}

void ShardWriter::add(std::span<const std::int32_t> tokens, std::span<const std::int32_t> segment_ids,
                      std::int32_t label) {
  COMERA_CHECK(segment_ids.size() == (info_.segment_ids ? tokens.size() : 0),
               "a shard of split '{}' takes {} segment ids for a document of {} tokens, {} came", info_.split,
               info_.segment_ids ? tokens.size() : 0, tokens.size(), segment_ids.size());
  COMERA_CHECK(!files_.sealed(), "the shards of split '{}' are sealed: nothing can be added", info_.split);
  const auto count = static_cast<std::int64_t>(tokens.size());
  if (files_.is_open() && offsets_.back() > 0 && offsets_.back() + count > limit_) complete();
  if (!files_.is_open()) open();
  token_buffer_.insert(token_buffer_.end(), tokens.begin(), tokens.end());
  segment_buffer_.insert(segment_buffer_.end(), segment_ids.begin(), segment_ids.end());
  offsets_.push_back(offsets_.back() + count);
  if (info_.labels) labels_.push_back(label);
  ++all_documents_;
  all_tokens_ += count;
  if (token_buffer_.size() >= buffered_tokens) write_buffers();
}

void ShardWriter::write_buffers() {
  tokens_.append(std::span<const std::int32_t>(token_buffer_));
  if (info_.segment_ids) segment_ids_.append(std::span<const std::int32_t>(segment_buffer_));
  token_buffer_.clear();
  segment_buffer_.clear();
}

void ShardWriter::complete() {
  write_buffers();
  storage::hdf5::File& file = files_.file();
  storage::hdf5::Dataset offsets = file.create_dataset("document_offsets", DType::int64);
  offsets.append(std::span<const std::int64_t>(offsets_));
  if (info_.labels) {
    storage::hdf5::Dataset labels = file.create_dataset("labels", DType::int32);
    labels.append(std::span<const std::int32_t>(labels_));
    labels_.clear();
  }
  file.set_attribute("/", "format", shard_format);
  file.set_attribute("/", "version", shard_version);
  file.set_attribute("/", "tokenizer_hash", info_.tokenizer_hash);
  file.set_attribute("/", "vocabulary", std::int64_t{info_.vocabulary});
  const SpecialIds& special = info_.special;
  file.set_attribute(
      "/", "special_ids",
      std::vector<std::int64_t>{special.pad, special.unknown, special.cls, special.separator, special.mask});
  file.set_attribute("/", "split", info_.split);
  file.set_attribute("/", "documents", static_cast<std::int64_t>(offsets_.size()) - 1);
  file.set_attribute("/", "tokens", offsets_.back());
  files_.close();
}

void ShardWriter::seal() {
  if (files_.is_open()) complete();
  files_.seal();
}

void ShardWriter::finish() {
  seal();
  remove_shards(folder_, info_.split);
  publish();
}

}  // namespace comera::data
