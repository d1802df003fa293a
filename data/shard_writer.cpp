#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "data/shard.h"

namespace comera::data {
namespace {

constexpr std::size_t buffered_tokens = 1 << 18;

void sync_one(const std::filesystem::path& path, int flags) {
  const int file = ::open(path.c_str(), flags | O_CLOEXEC);
  const bool synced = file >= 0 && ::fsync(file) == 0;
  const int reason = errno;
  if (file >= 0) ::close(file);
  COMERA_CHECK(synced, "{}: could not write to the disk: {}", path.string(), std::strerror(reason));
}

}  // namespace

void sync_to_disk(const std::filesystem::path& path) {
  sync_one(path, O_RDONLY);
  const auto folder = path.parent_path();
  sync_one(folder.empty() ? "." : folder, O_RDONLY | O_DIRECTORY);
}

ShardWriter::ShardWriter(std::filesystem::path folder, ShardInfo info, std::int64_t tokens_per_shard)
    : folder_(std::move(folder)), info_(std::move(info)), limit_(tokens_per_shard) {
  COMERA_CHECK(limit_ > 0, "a shard must hold at least one token, the limit is {}", limit_);
}

ShardWriter::~ShardWriter() {
  if (!file_.is_open()) return;
  try {
    file_.close();
  } catch (const std::exception&) {
    // The file is thrown away; what went wrong was thrown by the call that failed.
  }
  std::error_code ignored;
  std::filesystem::remove(temporary_path(), ignored);
}

std::filesystem::path ShardWriter::final_path() const {
  return folder_ / fmt::format("{}-{:05}.h5", info_.split, shards_);
}

std::filesystem::path ShardWriter::temporary_path() const {
  auto path = final_path();
  path += ".partial";
  return path;
}

void ShardWriter::open() {
  file_ = hdf5::File::create(temporary_path());
  tokens_ = file_.create_dataset("tokens", DType::int32);
  if (info_.segment_ids) segment_ids_ = file_.create_dataset("segment_ids", DType::int32);
  offsets_.assign(1, 0);
}

void ShardWriter::add(std::span<const std::int32_t> tokens, std::span<const std::int32_t> segment_ids,
                      std::int32_t label) {
  COMERA_CHECK(segment_ids.size() == (info_.segment_ids ? tokens.size() : 0),
               "a shard of split '{}' takes {} segment ids for a document of {} tokens, {} came", info_.split,
               info_.segment_ids ? tokens.size() : 0, tokens.size(), segment_ids.size());
  const auto count = static_cast<std::int64_t>(tokens.size());
  if (file_.is_open() && offsets_.back() > 0 && offsets_.back() + count > limit_) complete();
  if (!file_.is_open()) open();
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
  hdf5::Dataset offsets = file_.create_dataset("document_offsets", DType::int64);
  offsets.append(std::span<const std::int64_t>(offsets_));
  if (info_.labels) {
    hdf5::Dataset labels = file_.create_dataset("labels", DType::int32);
    labels.append(std::span<const std::int32_t>(labels_));
    labels_.clear();
  }
  file_.set_attribute("/", "format", shard_format);
  file_.set_attribute("/", "version", shard_version);
  file_.set_attribute("/", "tokenizer_hash", info_.tokenizer_hash);
  file_.set_attribute("/", "vocabulary", std::int64_t{info_.vocabulary});
  const SpecialIds& special = info_.special;
  file_.set_attribute(
      "/", "special_ids",
      std::vector<std::int64_t>{special.pad, special.unknown, special.cls, special.separator, special.mask});
  file_.set_attribute("/", "split", info_.split);
  file_.set_attribute("/", "documents", static_cast<std::int64_t>(offsets_.size()) - 1);
  file_.set_attribute("/", "tokens", offsets_.back());
  const auto temporary = temporary_path();
  try {
    file_.close();
    sync_to_disk(temporary);
    std::filesystem::rename(temporary, final_path());
  } catch (const std::filesystem::filesystem_error& error) {
    throw Error(fmt::format("{}: could not be renamed: {}", temporary.string(), error.code().message()));
  } catch (const Error&) {
    std::error_code ignored;
    std::filesystem::remove(temporary, ignored);
    throw;
  }
  sync_to_disk(final_path());
  ++shards_;
}

void ShardWriter::finish() {
  if (file_.is_open()) complete();
}

}  // namespace comera::data
