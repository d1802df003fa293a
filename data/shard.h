#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "data/hdf5.h"
#include "data/tokenizer.h"

namespace comera::data {

// A shard is one HDF5 file:
//   tokens             int32 (tokens)         the documents' token ids end to end, without special pieces
//   document_offsets   int64 (documents + 1)  document d is tokens [offsets[d], offsets[d + 1])
//   segment_ids        int32 (tokens)         optional
//   labels             int32 (documents)      optional
// with the attributes of "/": format = "comera-shard", version, tokenizer_hash, vocabulary, special_ids
// ([PAD], [UNK], [CLS], [SEP], [MASK]), split, documents, tokens. Chunks carry checksums.
inline constexpr const char* shard_format = "comera-shard";
inline constexpr std::int64_t shard_version = 1;

struct ShardInfo {
  std::string tokenizer_hash;
  std::int32_t vocabulary = 0;
  SpecialIds special;
  std::string split;  // "train" or "validation"
  bool segment_ids = false;
  bool labels = false;
};

// Writes FOLDER/SPLIT-00000.h5, FOLDER/SPLIT-00001.h5, … A shard gets its name when it is complete and on the
// disk; a failure or destruction before finish() leaves no unfinished file.
// Memory: a buffer of 1 MiB of tokens and 8 bytes per document of a shard.
class ShardWriter {
 public:
  ShardWriter(std::filesystem::path folder, ShardInfo info, std::int64_t tokens_per_shard);
  ~ShardWriter();
  ShardWriter(const ShardWriter&) = delete;
  ShardWriter& operator=(const ShardWriter&) = delete;

  // A new shard begins before a document that would pass the limit.
  void add(std::span<const std::int32_t> tokens, std::span<const std::int32_t> segment_ids = {},
           std::int32_t label = 0);
  void finish();

  std::int64_t shards() const { return shards_; }
  std::int64_t documents() const { return all_documents_; }
  std::int64_t tokens() const { return all_tokens_; }

 private:
  void open();
  void write_buffers();
  void complete();
  std::filesystem::path final_path() const;
  std::filesystem::path temporary_path() const;

  std::filesystem::path folder_;
  ShardInfo info_;
  std::int64_t limit_;
  hdf5::File file_;
  hdf5::Dataset tokens_, segment_ids_;
  std::vector<std::int32_t> token_buffer_, segment_buffer_, labels_;
  std::vector<std::int64_t> offsets_;
  std::int64_t shards_ = 0;  // completed
  std::int64_t all_documents_ = 0;
  std::int64_t all_tokens_ = 0;
};

// Opens and checks a shard in one streaming pass: format, version, counts, offsets, checksums, ids within the
// vocabulary. Error with the file's name otherwise.
// Memory: 8 bytes per document, and its labels.
class ShardReader {
 public:
  explicit ShardReader(const std::filesystem::path& path);

  const std::string& name() const { return name_; }
  const ShardInfo& info() const { return info_; }
  std::int64_t documents() const { return static_cast<std::int64_t>(offsets_.size()) - 1; }
  std::int64_t tokens() const { return offsets_.back(); }
  std::span<const std::int64_t> offsets() const { return offsets_; }
  std::span<const std::int32_t> labels() const { return labels_; }

  // Tokens [begin, begin + count).
  void read_tokens(std::int64_t begin, std::int64_t count, std::int32_t* tokens) const;
  void read_segment_ids(std::int64_t begin, std::int64_t count, std::int32_t* segment_ids) const;

 private:
  void check_attributes();
  void check_tokens() const;

  std::string name_;
  hdf5::File file_;
  ShardInfo info_;
  hdf5::Dataset tokens_, segment_ids_;
  std::vector<std::int64_t> offsets_;
  std::vector<std::int32_t> labels_;
};

// The shards of one split in a folder, in the order of their names. May be shared by threads.
class ShardSet {
 public:
  // Error if the folder has none, if they hold no tokens, or if they were made with different tokenizers.
  ShardSet(const std::filesystem::path& folder, const std::string& split);

  const std::vector<ShardReader>& shards() const { return shards_; }
  const ShardInfo& info() const { return shards_[0].info(); }
  std::int64_t documents() const { return documents_; }
  std::int64_t tokens() const { return tokens_; }

 private:
  std::vector<ShardReader> shards_;
  std::int64_t documents_ = 0;
  std::int64_t tokens_ = 0;
};

// Writes the file's and its folder's changes to the disk. Error with the system's reason.
void sync_to_disk(const std::filesystem::path& path);

}  // namespace comera::data
