#include "data/shards/sequence_set.h"

#include <algorithm>

#include "data/masking/masked_rows.h"
#include "data/shards/shard.h"
#include "storage/folder.h"

namespace comera::data {
namespace {

// Whether a sample has a piece that may be masked.
bool has_ordinary_piece(SampleSource& samples) {
  Sample sample;
  for (std::int64_t i = 0; i < samples.count(); ++i) {
    samples.read(i, sample);
    if (std::ranges::any_of(sample.ids, [&](std::int32_t id) { return !samples.special().contains(id); }))
      return true;
  }
  return false;
}

std::string file_name(const std::string& path) { return std::filesystem::path(path).filename().string(); }

class ShardSequences final : public SequenceSet {
 public:
  ShardSequences(const std::filesystem::path& folder, const std::string& split, const Tokenizer& tokenizer)
      : shards_(folder, split) {
    COMERA_CHECK(
        shards_.info().vocabulary == tokenizer.vocabulary(),
        "the {} shards in {} are for a vocabulary of {}, but the tokenizer has {} pieces; make them again "
        "with `comera data`",
        split, folder.string(), shards_.info().vocabulary, tokenizer.vocabulary());
    COMERA_CHECK(
        shards_.info().tokenizer_hash == tokenizer.hash(),
        "the {} shards in {} were made with another tokenizer than the recipe's; make them again with "
        "`comera data`",
        split, folder.string());
    COMERA_CHECK(
        shards_.info().special == tokenizer.special(),
        "the {} shards in {} have other ids for [PAD], [UNK], [CLS], [SEP] and [MASK] than the tokenizer; "
        "make them again with `comera data`",
        split, folder.string());
  }

  std::int32_t vocabulary() const override { return shards_.info().vocabulary; }
  std::int32_t types() const override { return shards_.types(); }
  void check_types(std::int32_t types) const override {
    for (const ShardReader& shard : shards_.shards()) shard.check_types(types);
  }
  bool masked() const override { return false; }
  std::string fingerprint() const override { return shards_.fingerprint(); }
  std::vector<FileFingerprint> files() const override {
    std::vector<FileFingerprint> files;
    for (const ShardReader& shard : shards_.shards())
      files.push_back({file_name(shard.name()), shard.content().hex()});
    return files;
  }
  bool has_targets() const override { return has_ordinary_piece(*samples(any_length, 0)); }
  std::unique_ptr<SampleSource> samples(std::int64_t length, std::int64_t cache_bytes) const override {
    return std::make_unique<Samples>(shards_, length, cache_bytes);
  }
  void count_pieces(std::vector<std::int64_t>& counts) const override { shards_.count_pieces(counts); }

 private:
  ShardSet shards_;
};

class RowSequences final : public SequenceSet {
 public:
  RowSequences(const std::vector<std::filesystem::path>& files, const Tokenizer& tokenizer,
               TargetKind targets)
      : rows_(files, tokenizer.vocabulary(), tokenizer.special()), targets_(targets) {}

  std::int32_t vocabulary() const override { return rows_.vocabulary(); }
  std::int32_t types() const override { return rows_.types(); }
  void check_types(std::int32_t types) const override {
    for (const MaskedRowFile& file : rows_.files()) file.check_types(types);
  }
  bool masked() const override { return targets_ == TargetKind::file; }
  std::string fingerprint() const override { return rows_.fingerprint(); }
  std::vector<FileFingerprint> files() const override {
    std::vector<FileFingerprint> files;
    for (const MaskedRowFile& file : rows_.files())
      files.push_back({file_name(file.name()), file.content().hex()});
    return files;
  }
  bool has_targets() const override {
    return masked() ? rows_.targets() > 0 : has_ordinary_piece(*samples(any_length, 0));
  }
  std::unique_ptr<SampleSource> samples(std::int64_t length, std::int64_t cache_bytes) const override {
    return std::make_unique<MaskedRows>(rows_, length, targets_ == TargetKind::dynamic, cache_bytes);
  }
  void count_pieces(std::vector<std::int64_t>& counts) const override {
    MaskedRows rows(rows_, any_length, true, 0);
    Sample sample;
    for (std::int64_t row = 0; row < rows.count(); ++row) {
      rows.read(row, sample);
      for (const std::int32_t id : sample.ids)
        if (!rows_.special().contains(id)) ++counts[static_cast<std::size_t>(id)];
    }
  }

 private:
  MaskedRowSet rows_;
  TargetKind targets_;
};

// The folder's HDF5 files by name.
std::vector<std::filesystem::path> list(const std::filesystem::path& folder) {
  std::error_code code;
  std::vector<std::filesystem::path> files;
  for (std::filesystem::directory_iterator entry(folder, code), end; !code && entry != end;
       entry.increment(code)) {
    const auto suffix = entry->path().extension();
    if (suffix == ".h5" || suffix == ".hdf5") files.push_back(entry->path());
  }
  storage::refuse_missing(folder, "folder of shards", "write them with 'comera data'");
  COMERA_CHECK(!code, "{}: could not list the folder: {}; folders of shards are written by 'comera data'",
               folder.string(), code.message());
  std::sort(files.begin(), files.end());
  return files;
}

bool is_named_as_shard(const std::filesystem::path& file) {
  const std::string name = file.filename().string();
  return file.extension() == ".h5" && (name.starts_with("train-") || name.starts_with("validation-"));
}

// Decided without HDF5, which must not see a shard before its seal is checked: by the beginnings of the
// files, and otherwise by the first one's name.
bool holds_masked_rows(const std::vector<std::filesystem::path>& files) {
  std::vector<storage::FileStart> starts;
  for (const auto& file : files) starts.push_back(storage::start_of(file, shard_seal));
  if (files.empty() || std::ranges::find(starts, storage::FileStart::seal) != starts.end()) return false;
  return starts[0] == storage::FileStart::hdf5 || !is_named_as_shard(files[0]);
}

}  // namespace

bool has_held_out(const std::filesystem::path& folder) {
  const std::vector<std::filesystem::path> files = list(folder);
  return holds_masked_rows(files) || std::ranges::any_of(files, [](const std::filesystem::path& file) {
           return file.filename().string().starts_with("validation-");
         });
}

std::unique_ptr<SequenceSet> open_sequences(const std::filesystem::path& folder, const std::string& split,
                                            const Tokenizer& tokenizer, TargetKind targets) {
  std::vector<std::filesystem::path> files = list(folder);
  if (!holds_masked_rows(files)) return std::make_unique<ShardSequences>(folder, split, tokenizer);
  const auto is_training = [](const std::filesystem::path& file) {
    return file.filename().string().find("training") != std::string::npos;
  };
  if (std::ranges::any_of(files, is_training)) {
    std::erase_if(files, [&](const auto& file) { return is_training(file) != (split == "train"); });
    COMERA_CHECK(!files.empty(), "{}: all its files of masked sequences are training files by their names",
                 folder.string());
  }
  return std::make_unique<RowSequences>(files, tokenizer, targets);
}

}  // namespace comera::data
