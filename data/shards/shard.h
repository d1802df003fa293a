#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "data/shards/shard_files.h"
#include "data/tokenizers/tokenizer.h"
#include "storage/hash.h"
#include "storage/hdf5.h"
#include "storage/seal.h"

namespace comera::data {

// A shard is one HDF5 file, sealed with a checksum of all of it (seal.h):
//   tokens             int32 (tokens)         the documents' token ids end to end, without special pieces
//   document_offsets   int64 (documents + 1)  document d is tokens [offsets[d], offsets[d + 1])
//   segment_ids        int32 (tokens)         optional
//   labels             int32 (documents)      optional
// with the attributes of "/": format = "comera-shard", version, tokenizer_hash, vocabulary, special_ids
// ([PAD], [UNK], [CLS], [SEP], [MASK]), split, documents, tokens, and, written once the whole set exists,
// index (0 for SPLIT-00000.h5) and shards (of the split). Chunks have checksums too, to detect damage while
// the file is in use.
inline constexpr const char* shard_format = "comera-shard";
inline constexpr std::int64_t shard_version = 2;  // 1 had no seal
inline constexpr storage::SealKind shard_seal = {"shard", shard_version, "make it again with 'comera data'"};

struct ShardInfo {
  std::string tokenizer_hash;
  std::int32_t vocabulary = 0;
  SpecialIds special;
  std::string split;  // "train" or "validation"
  bool segment_ids = false;
  bool labels = false;
};

// Writes FOLDER/SPLIT-00000.h5, FOLDER/SPLIT-00001.h5, … Until all of them are on disk they are called
// SPLIT-00000.h5.partial, …, and existing shards of that split stay; a failure or destruction before
// publish() removes the new ones. Memory: a buffer of 1 MiB of tokens and 8 bytes per document of a shard.
class ShardWriter {
 public:
  ShardWriter(std::filesystem::path folder, ShardInfo info, std::int64_t tokens_per_shard);

  // Starts a new shard before a document that would exceed the limit.
  void add(std::span<const std::int32_t> tokens, std::span<const std::int32_t> segment_ids = {},
           std::int32_t label = 0);
  // seal(), remove_shards() and publish().
  void finish();
  // Completes the last shard and writes each shard's index in the set. Nothing can be added afterwards.
  void seal();
  // Renames the sealed shards to their final names, the last one last: a set cut short by a kill lacks
  // shards, and ShardSet rejects it.
  void publish() { files_.publish(); }

  std::int64_t shards() const { return files_.count(); }
  std::int64_t documents() const { return all_documents_; }
  std::int64_t tokens() const { return all_tokens_; }

 private:
  void open();
  void write_buffers();
  void complete();

  std::filesystem::path folder_;
  ShardInfo info_;
  std::int64_t limit_;
  ShardFiles files_;
  storage::hdf5::Dataset tokens_, segment_ids_;
  std::vector<std::int32_t> token_buffer_, segment_buffer_, labels_;
  std::vector<std::int64_t> offsets_;
  std::int64_t all_documents_ = 0;
  std::int64_t all_tokens_ = 0;
};

// Opens and checks a shard in two streaming passes: the seal, before HDF5 sees anything of the file, then
// format, version, counts, offsets, token ids within the vocabulary, non-negative segment ids. Error with the
// file's name otherwise.
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
  // One more than the largest segment id; 1 without segment ids.
  std::int32_t types() const { return types_; }
  // Error with the document unless all segment ids are below `types`.
  void check_types(std::int32_t types) const;
  // 0 without labels.
  std::int32_t lowest_label() const { return lowest_label_; }
  std::int32_t highest_label() const { return highest_label_; }
  // Its position in the set: shard index() of shards(). 0 of 0: its set was never finished.
  std::int64_t index() const { return index_; }
  std::int64_t shards() const { return shards_; }
  // Hash of tokens, documents, segment ids and labels.
  const storage::Hash128& content() const { return content_; }

  // Tokens [begin, begin + count).
  void read_tokens(std::int64_t begin, std::int64_t count, std::int32_t* tokens) const;
  void read_segment_ids(std::int64_t begin, std::int64_t count, std::int32_t* segment_ids) const;

 private:
  void check_attributes();
  void check_contents();
  void check_tokens(std::int64_t begin, std::span<const std::int32_t> ids) const;
  void check_segment_ids(std::int64_t begin, std::span<const std::int32_t> ids) const;
  std::int64_t document_of(std::int64_t token) const;

  std::string name_;
  storage::hdf5::File file_;
  ShardInfo info_;
  storage::hdf5::Dataset tokens_, segment_ids_;
  std::vector<std::int64_t> offsets_;
  std::vector<std::int32_t> labels_;
  std::int32_t types_ = 1, lowest_label_ = 0, highest_label_ = 0;
  std::int64_t index_ = 0, shards_ = 0;
  storage::Hash128 content_;
};

// The shards of one split in a folder, in order. May be shared by threads.
class ShardSet {
 public:
  // Error if the folder has no shards, an incomplete set or more than one, if they contain no tokens, or if
  // they differ in tokenizer or kind.
  ShardSet(const std::filesystem::path& folder, const std::string& split);

  const std::vector<ShardReader>& shards() const { return shards_; }
  const ShardInfo& info() const { return shards_[0].info(); }
  std::int64_t documents() const { return documents_; }
  std::int64_t tokens() const { return tokens_; }
  // One more than the largest segment id; 1 without segment ids.
  std::int32_t types() const { return types_; }
  // 0 without labels.
  std::int32_t lowest_label() const { return lowest_label_; }
  std::int32_t highest_label() const { return highest_label_; }
  // Adds the frequency of each piece; counts has the vocabulary's size. Reads everything once.
  void count_pieces(std::vector<std::int64_t>& counts) const;
  // 32 hexadecimal digits of the tokenizer and the shards' contents, for checkpoints: independent of the
  // folder's location, and different for another corpus or split.
  std::string fingerprint() const;

 private:
  // Checks that the last shard read belongs at this position, and to the earlier ones.
  void check_place(const std::filesystem::path& folder, const std::string& split, std::int64_t found) const;
  void check_kind() const;

  std::vector<ShardReader> shards_;
  std::int64_t documents_ = 0;
  std::int64_t tokens_ = 0;
  std::int32_t types_ = 1, lowest_label_ = 0, highest_label_ = 0;
};

}  // namespace comera::data
