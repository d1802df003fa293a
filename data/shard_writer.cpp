#include <algorithm>

#include "data/shard.h"
#include "storage/durable_file.h"
#include "storage/folder.h"

namespace comera::data {
namespace {

constexpr std::size_t buffered_tokens = 1 << 18;

const std::string unfinished = ".partial";

// Those whose names begin and end so, with anything or only a number between.
enum class Between : std::uint8_t { anything, number };

void remove_files(const std::filesystem::path& folder, const std::string& prefix, const std::string& suffix,
                  Between between) {
  std::error_code code;
  std::vector<std::filesystem::path> paths = storage::entries_of(folder, code);
  std::erase_if(paths, [&](const std::filesystem::path& path) {
    const std::string name = path.filename().string();
    if (!name.starts_with(prefix) || !name.ends_with(suffix)) return true;
    return between == Between::number &&
           name.find_first_not_of("0123456789", prefix.size()) != name.size() - suffix.size();
  });
  for (const auto& path : paths)
    if (!code) std::filesystem::remove(path, code);
  COMERA_CHECK(!code, "{}: could not remove the shards of an earlier run: {}", folder.string(),
               code.message());
  if (!paths.empty()) storage::sync_directory(folder);
}

}  // namespace

std::string shard_name(const std::string& split, std::int64_t index) {
  return fmt::format("{}-{:05}.h5", split, index);
}

void remove_shards(const std::filesystem::path& folder, const std::string& split) {
  remove_files(folder, split + "-", ".h5", Between::anything);
}

void remove_unfinished_shards(const std::filesystem::path& folder, const std::string& split) {
  remove_files(folder, split + "-", ".h5" + unfinished, Between::number);
}

ShardWriter::ShardWriter(std::filesystem::path folder, ShardInfo info, std::int64_t tokens_per_shard)
    : folder_(std::move(folder)), info_(std::move(info)), limit_(tokens_per_shard) {
  COMERA_CHECK(limit_ > 0, "a shard must hold at least one token, the limit is {}", limit_);
}

ShardWriter::~ShardWriter() {
  std::error_code ignored;
  if (file_.is_open()) {
    try {
      file_.close();
    } catch (const std::exception&) {
      // The file is thrown away; what went wrong was thrown by the call that failed.
    }
    std::filesystem::remove(temporary_path(), ignored);
  }
  for (const auto& path : completed_) std::filesystem::remove(path, ignored);
}

std::filesystem::path ShardWriter::temporary_path() const {
  return folder_ / (shard_name(info_.split, shards()) + unfinished);
}

void ShardWriter::open() {
  file_ = storage::hdf5::File::create(temporary_path(), {.user_block = storage::seal_bytes});
  tokens_ = file_.create_dataset("tokens", DType::int32);
  if (info_.segment_ids) segment_ids_ = file_.create_dataset("segment_ids", DType::int32);
  offsets_.assign(1, 0);
}

void ShardWriter::add(std::span<const std::int32_t> tokens, std::span<const std::int32_t> segment_ids,
                      std::int32_t label) {
  COMERA_CHECK(segment_ids.size() == (info_.segment_ids ? tokens.size() : 0),
               "a shard of split '{}' takes {} segment ids for a document of {} tokens, {} came", info_.split,
               info_.segment_ids ? tokens.size() : 0, tokens.size(), segment_ids.size());
  COMERA_CHECK(!sealed_, "the shards of split '{}' are sealed: nothing can be added", info_.split);
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
  storage::hdf5::Dataset offsets = file_.create_dataset("document_offsets", DType::int64);
  offsets.append(std::span<const std::int64_t>(offsets_));
  if (info_.labels) {
    storage::hdf5::Dataset labels = file_.create_dataset("labels", DType::int32);
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
  const auto path = temporary_path();
  try {
    file_.close();
    storage::sync_file(path);
  } catch (const Error&) {
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
    throw;
  }
  completed_.push_back(path);
}

void ShardWriter::seal() {
  if (file_.is_open()) complete();
  for (std::int64_t i = 0; i < shards(); ++i) {
    storage::hdf5::File file = storage::hdf5::File::modify(completed_[i]);
    file.set_attribute("/", "index", i);
    file.set_attribute("/", "shards", shards());
    file.close();
    storage::seal(completed_[i], shard_seal);
    storage::sync_file(completed_[i]);
  }
  sealed_ = true;
}

void ShardWriter::publish() {
  COMERA_CHECK(sealed_, "the shards of split '{}' are not sealed yet", info_.split);
  for (std::int64_t i = 0; i < shards(); ++i)
    // Each on the disk before the next, so that their order survives a crash of the machine.
    storage::rename_durably(completed_[i], folder_ / shard_name(info_.split, i));
}

void ShardWriter::finish() {
  seal();
  remove_shards(folder_, info_.split);
  publish();
}

}  // namespace comera::data
