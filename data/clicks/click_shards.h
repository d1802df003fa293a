#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "data/clicks/click_encoding.h"
#include "data/clicks/click_examples.h"
#include "data/shards/shard_files.h"
#include "storage/hash.h"
#include "storage/hdf5.h"
#include "storage/seal.h"

namespace comera::data {

// A shard of encoded examples is one HDF5 file, sealed with a checksum of all of it (seal.h):
//   labels   float32 (rows)           0 or 1
//   numbers  float32 (rows, numbers)  absent without numeric features
//   ids      int32 (rows, tables)
// with the attributes of "/": format = "comera-clicks", version, encoding, split, numbers, heights, rows,
// and, written once the whole set exists, index (0 for SPLIT-00000.h5) and shards (of the split).
inline constexpr const char* click_shard_format = "comera-clicks";
inline constexpr std::int64_t click_shard_version = 1;
inline constexpr storage::SealKind click_shard_seal = {"click shard", click_shard_version,
                                                       "make it again from the logs"};

struct ClickShardInfo {
  std::string encoding;  // the fingerprint of the encoding that produced the ids
  std::string split;     // "train" or "validation"
  std::int64_t dense_features = 0;
  std::vector<std::int64_t> heights;  // per table

  std::int64_t tables() const { return static_cast<std::int64_t>(heights.size()); }
};

// Writes FOLDER/SPLIT-00000.h5, … (shard_files.h). Memory: about 1 MiB.
class ClickShardWriter {
 public:
  ClickShardWriter(std::filesystem::path folder, ClickShardInfo info, std::int64_t rows_per_shard);

  // numbers: info.numbers of them. ids: one per table.
  void add(float label, const float* dense_features, const std::int32_t* ids);
  // seal(), removal of the split's old shards, and publish().
  void finish();
  // Completes the last shard and writes each shard's index in the set. Nothing can be added afterwards.
  void seal();
  // Renames the sealed shards to their final names, the last one last.
  void publish() { files_.publish(); }

  std::int64_t rows() const { return rows_; }
  std::int64_t clicks() const { return clicks_; }
  std::int64_t shards() const { return files_.count(); }

 private:
  void open();
  void write_buffer();
  void complete();

  std::filesystem::path folder_;
  ClickShardInfo info_;
  std::int64_t limit_;
  ShardFiles files_;
  storage::hdf5::Dataset labels_, numbers_, ids_;
  ClickExamples buffer_;
  std::int64_t shard_rows_ = 0;  // written to the open file
  std::int64_t rows_ = 0, clicks_ = 0;
};

// The shards of one split in a folder, as one list of examples. May be shared by threads.
class ClickShardSet {
 public:
  // Reads everything once. Error if the folder has no such shards, an incomplete set or more than one, if a
  // shard is damaged, if encodings differ, or if a label, number or id is impossible.
  ClickShardSet(const std::filesystem::path& folder, const std::string& split);

  const ClickShardInfo& info() const { return info_; }
  std::int64_t rows() const { return rows_; }
  std::int64_t clicks() const { return clicks_; }
  // 32 hexadecimal digits of encoding, split and contents, for checkpoints.
  std::string fingerprint() const;

  // Rows [first, first + count), possibly from several shards.
  void read(std::int64_t first, std::int64_t count, ClickExamples& examples) const;

 private:
  struct Shard {
    std::string name;
    storage::hdf5::File file;
    storage::hdf5::Dataset labels, dense_features, ids;
    std::int64_t begin = 0, end = 0;  // of its rows in the set
  };
  void open(const std::filesystem::path& path, std::int64_t shards);
  void check_rows(const Shard& shard, std::int64_t first, const ClickExamples& examples) const;
  void check_contents(const Shard& shard);

  ClickShardInfo info_;
  std::vector<Shard> shards_;
  std::int64_t rows_ = 0;
  std::int64_t clicks_ = 0;
  std::string hashes_;  // of the contents so far
};

// The number of well-formed rows of the logs for training, which come first, and for validation.
struct ClickSplit {
  std::int64_t train = 0;
  std::int64_t validation = 0;
};

// Reads the logs to count their rows. A share `held_out` of them, the last ones, is for validation: logs are
// ordered by time, and the task is to predict the future. Error if no row is left for training, unless all
// are held out.
ClickSplit split_by_time(const std::vector<std::filesystem::path>& logs, ClickFormat format, double held_out,
                         const ClickProgress& progress = {});

// The vocabulary of the training rows.
ClickEncoding learn_vocabulary(const std::vector<std::filesystem::path>& logs, ClickFormat format,
                               const ClickSplit& split, std::int64_t threshold,
                               const ClickProgress& progress = {});

struct ClickSplitCounts {
  std::int64_t rows = 0;
  std::int64_t clicks = 0;
  std::int64_t shards = 0;
};

struct ClickBuildCounts {
  ClickSplitCounts train, validation;
  std::map<std::string, std::int64_t> left_out;  // malformed rows, by reason
  std::vector<std::string> skipped;              // one sentence for each log with such rows
};

// Saved beside the shards, so that rows of other logs get the same ids: the file that ClickEncoding::load()
// reads.
inline constexpr const char* click_encoding_file = "encoding.h5";

// Encodes logs into OUTPUT/train-00000.h5 … and OUTPUT/validation-00000.h5 … (none for a part without rows),
// and saves the encoding as OUTPUT/encoding.h5. Memory does not depend on the logs. Shards of an earlier
// build are replaced once all new ones are on disk. Error, with the folder unchanged, if a log is not
// readable, does not have as many rows as `split` says, or another process makes shards there; unless
// `replace`, also if there are shards already. A shard of 2^20 Criteo rows has 160 MiB.
ClickBuildCounts build_click_shards(const std::vector<std::filesystem::path>& logs,
                                    const ClickEncoding& encoding, const ClickSplit& split,
                                    const std::filesystem::path& output,
                                    std::int64_t rows_per_shard = 1 << 20, const ClickProgress& progress = {},
                                    bool replace = true);

}  // namespace comera::data
