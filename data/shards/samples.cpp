#include "data/shards/samples.h"

#include <algorithm>

namespace comera::data {
namespace {

constexpr std::int64_t block_tokens = 16384;  // a chunk of a shard

}  // namespace

Samples::Samples(const ShardSet& shards, std::int64_t length, std::int64_t cache_bytes)
    : shards_(shards), content_(length - 2), blocks_(cache_bytes, 4 * block_tokens) {
  if (content_ < 1)
    throw UsageError(
        fmt::format("sequences of {} tokens have no room for text between [CLS] and [SEP]", length));
  first_.reserve(static_cast<std::size_t>(shards.documents()) + 1);
  first_.push_back(0);
  first_document_.push_back(0);
  for (const ShardReader& shard : shards.shards()) {
    const auto offsets = shard.offsets();
    for (std::size_t d = 0; d + 1 < offsets.size(); ++d)
      first_.push_back(first_.back() + (offsets[d + 1] - offsets[d] + content_ - 1) / content_);
    first_document_.push_back(first_document_.back() + shard.documents());
  }
}

Samples::Place Samples::find(std::int64_t sample) const {
  const std::int64_t document = std::upper_bound(first_.begin(), first_.end(), sample) - first_.begin() - 1;
  const std::int64_t shard = std::upper_bound(first_document_.begin(), first_document_.end(), document) -
                             first_document_.begin() - 1;
  Place place{static_cast<std::size_t>(shard), document - first_document_[shard], 0, 0};
  const auto offsets = shards_.shards()[place.shard].offsets();
  const std::int64_t begin = offsets[place.document];
  const std::int64_t tokens = offsets[place.document + 1] - begin;
  const std::int64_t pieces = first_[document + 1] - first_[document];
  const std::int64_t piece = sample - first_[document];
  place.begin = begin + piece * tokens / pieces;
  place.end = begin + (piece + 1) * tokens / pieces;
  return place;
}

std::int64_t Samples::length(std::int64_t sample) const {
  const Place place = find(sample);
  return place.end - place.begin + 2;
}

std::vector<std::int32_t> Samples::lengths() const {
  std::vector<std::int32_t> lengths;
  lengths.reserve(static_cast<std::size_t>(count()));
  for (const ShardReader& shard : shards_.shards()) {
    const auto offsets = shard.offsets();
    for (std::size_t d = 0; d + 1 < offsets.size(); ++d) {
      const std::int64_t tokens = offsets[d + 1] - offsets[d];
      const std::int64_t pieces = (tokens + content_ - 1) / content_;
      for (std::int64_t piece = 0; piece < pieces; ++piece)
        lengths.push_back(
            static_cast<std::int32_t>((piece + 1) * tokens / pieces - piece * tokens / pieces + 2));
    }
  }
  return lengths;
}

const std::vector<std::int32_t>& Samples::block(std::size_t shard, std::int64_t index) {
  return blocks_.get(shard, index, [&](std::vector<std::int32_t>& tokens) {
    const ShardReader& reader = shards_.shards()[shard];
    const std::int64_t begin = index * block_tokens;
    tokens.resize(static_cast<std::size_t>(std::min(block_tokens, reader.tokens() - begin)));
    reader.read_tokens(begin, static_cast<std::int64_t>(tokens.size()), tokens.data());
  });
}

void Samples::read(std::int64_t sample, Sample& to) {
  auto& ids = to.ids;
  auto& type_ids = to.type_ids;
  const Place place = find(sample);
  const ShardReader& shard = shards_.shards()[place.shard];
  ids.clear();
  ids.push_back(shard.info().special.cls);
  for (std::int64_t at = place.begin; at < place.end;) {
    const auto& tokens = block(place.shard, at / block_tokens);
    const std::int64_t within = at % block_tokens;
    const std::int64_t count = std::min(place.end - at, static_cast<std::int64_t>(tokens.size()) - within);
    ids.insert(ids.end(), tokens.begin() + within, tokens.begin() + within + count);
    at += count;
  }
  ids.push_back(shard.info().special.separator);
  type_ids.assign(ids.size(), 0);
  if (shard.info().segment_ids) {
    shard.read_segment_ids(place.begin, place.end - place.begin, type_ids.data() + 1);
    type_ids.back() = type_ids[type_ids.size() - 2];
  }
  to.label = shard.info().labels ? shard.labels()[place.document] : 0;
  to.score = 0;
  to.masked = false;
}

}  // namespace comera::data
