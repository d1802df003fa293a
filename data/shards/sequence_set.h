#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "data/shards/samples.h"
#include "data/tokenizers/tokenizer.h"

namespace comera::data {

// No limit for a sample's length.
constexpr std::int64_t any_length = std::numeric_limits<std::int32_t>::max();

// Where the targets of already masked files come from.
enum class TargetKind : std::uint8_t {
  file,     // the files' own, the same in every epoch
  dynamic,  // original ids are restored, and masked again in every epoch
};

struct FileFingerprint {
  std::string name;
  std::string content;  // hexadecimal digits
};

// The sequences of one split, whatever the kind of files. May be shared by threads.
class SequenceSet {
 public:
  virtual ~SequenceSet() = default;
  virtual std::int32_t vocabulary() const = 0;
  // One more than the largest segment id.
  virtual std::int32_t types() const = 0;
  // Error with file and document or row unless all segment ids are below `types`.
  virtual void check_types(std::int32_t types) const = 0;
  // Whether samples have their own targets.
  virtual bool masked() const = 0;
  // 32 hexadecimal digits of the contents, for checkpoints.
  virtual std::string fingerprint() const = 0;
  // The same for each file, ordered by name.
  virtual std::vector<FileFingerprint> files() const = 0;
  // Whether there are any targets: in a file, or pieces that can be masked. Reads until it finds one.
  virtual bool has_targets() const = 0;
  // Samples of at most `length` tokens. The set must outlive them. Error if a sequence cannot be cut to fit.
  virtual std::unique_ptr<SampleSource> samples(std::int64_t length, std::int64_t cache_bytes) const = 0;
  // Adds the frequency of each piece before masking; counts has the vocabulary's size. Reads everything once.
  virtual void count_pieces(std::vector<std::int64_t>& counts) const = 0;
};

// Opens the shards of a split ("train" or "validation") in a folder: those of this program
// (data/shards/shard.h), or files of masked sequences (data/masking/masked_rows.h; *.h5 and *.hdf5). If some
// of the latter have "training" in their names, those are the training split and the others the validation
// split; otherwise all belong to both. Error if they are missing, damaged, or were made with another
// tokenizer.
std::unique_ptr<SequenceSet> open_sequences(const std::filesystem::path& folder, const std::string& split,
                                            const Tokenizer& tokenizer,
                                            TargetKind targets = TargetKind::file);

// Whether a folder has a "validation" split, without opening the files.
bool has_held_out(const std::filesystem::path& folder);

}  // namespace comera::data
