#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/shards/block_cache.h"
#include "data/shards/samples.h"
#include "storage/hdf5.h"

namespace comera::data {

// A file in the layout of NVIDIA's BERT scripts, one sequence per row of
//   input_ids                integers (rows, L)  with [CLS] and [SEP], masked already, padding at the end
//   input_mask               integers (rows, L)  1 for each token, 0 for padding
//   segment_ids              integers (rows, L)
//   masked_lm_positions      integers (rows, P)  of the targets, ascending; 0 after the last one
//   masked_lm_ids            integers (rows, P)  original ids; 0, [PAD] or negative without a target
//   next_sentence_labels     integers (rows)     optional
// of any width, compressed or not. The file does not name the vocabulary of its ids.
//
// Opens and checks it in one streaming pass: datasets and shapes (L and P up to 65,536), ids within the
// vocabulary, masks, positions that ascend within their rows, no target at or after a position of 0, and that
// rows begin with [CLS]. Error with the file's name and the row (from 0) otherwise. Memory: 4 bytes per row.
class MaskedRowFile {
 public:
  struct Rows {
    std::int64_t begin = 0;
    std::vector<std::int32_t> ids, segments, positions, targets;  // whole rows, including padding
    std::vector<std::int32_t> labels;
  };

  MaskedRowFile(const std::filesystem::path& path, std::int32_t vocabulary, const SpecialIds& special);

  const std::string& name() const { return name_; }
  std::int64_t rows() const { return rows_; }
  const std::vector<std::int32_t>& lengths() const { return lengths_; }
  std::int64_t tokens() const { return tokens_; }
  std::int64_t targets() const { return target_count_; }
  // One more than the largest segment id.
  std::int32_t types() const { return types_; }
  // Error with the row unless all segment ids are below `types`.
  void check_types(std::int32_t types) const;
  const storage::Hash128& content() const { return content_; }
  // Bytes of one row in Rows, including padding.
  std::int64_t row_bytes() const {
    return static_cast<std::int64_t>(sizeof(std::int32_t)) * (2 * width_ + 2 * most_targets_ + has_labels_);
  }

  // Rows [begin, begin + count).
  void read(std::int64_t begin, std::int64_t count, Rows& to) const;
  // Row `begin + row` of those read; if `restored`, with the original ids and without targets.
  void take(const Rows& rows, std::int64_t row, bool restored, Sample& to) const;

 private:
  storage::hdf5::Dataset open(const char* dataset, std::size_t dims);
  void check_row(const Rows& rows, std::int64_t row, std::int32_t vocabulary, const SpecialIds& special);
  // The number of targets in the row.
  std::int64_t check_targets(const Rows& rows, std::int64_t row, std::int32_t vocabulary,
                             const SpecialIds& special) const;

  std::string name_;
  storage::hdf5::File file_;
  storage::hdf5::Dataset ids_, mask_, segments_, positions_, targets_, labels_;
  bool has_labels_ = false;
  std::int64_t rows_ = -1;  // unknown yet
  std::int64_t width_ = 0, most_targets_ = 0;
  std::vector<std::int32_t> lengths_;
  std::int64_t tokens_ = 0;
  std::int64_t target_count_ = 0;
  std::int32_t types_ = 1;
  storage::Hash128 content_;
};

// The files of a folder, ordered by name. May be shared by threads.
class MaskedRowSet {
 public:
  // Error if there is no file or no row.
  MaskedRowSet(const std::vector<std::filesystem::path>& files, std::int32_t vocabulary,
               const SpecialIds& special);

  const std::vector<MaskedRowFile>& files() const { return files_; }
  std::int32_t vocabulary() const { return vocabulary_; }
  const SpecialIds& special() const { return special_; }
  std::int64_t rows() const { return rows_; }
  std::int64_t targets() const { return targets_; }
  std::int32_t types() const { return types_; }
  // 32 hexadecimal digits of the files' contents, for checkpoints.
  std::string fingerprint() const;
  // Bytes of a row of the widest file in memory.
  std::int64_t row_bytes() const;

 private:
  std::vector<MaskedRowFile> files_;
  std::int32_t vocabulary_;
  SpecialIds special_;
  std::int64_t rows_ = 0, targets_ = 0;
  std::int32_t types_ = 1;
};

// Its rows as samples, without padding: with the files' targets, or with the original ids restored, for new
// masks. Rows are read in blocks, the latest of which are kept. For one thread.
class MaskedRows final : public SampleSource {
 public:
  // set must outlive this. Error if a row has more than `length` tokens, because targets cannot be cut off.
  MaskedRows(const MaskedRowSet& set, std::int64_t length, bool restored, std::int64_t cache_bytes);

  std::int32_t vocabulary() const override { return set_.vocabulary(); }
  const SpecialIds& special() const override { return set_.special(); }
  std::int64_t count() const override { return set_.rows(); }
  std::vector<std::int32_t> lengths() const override;
  std::int64_t length(std::int64_t sample) const override;
  bool masked() const override { return !restored_; }
  void read(std::int64_t sample, Sample& to) override;
  // Maximum number of rows kept.
  std::int64_t kept() const;

 private:
  std::pair<std::size_t, std::int64_t> find(std::int64_t sample) const;  // file and row in it
  const MaskedRowFile::Rows& block(std::size_t file, std::int64_t index);

  const MaskedRowSet& set_;
  bool restored_;
  std::vector<std::int64_t> first_;  // files + 1: first row of each
  BlockCache<MaskedRowFile::Rows> blocks_;
};

}  // namespace comera::data
