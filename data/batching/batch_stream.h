#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace comera::data {

// Where a loader stands: which samples of the epoch's order have been handed out. Plain numbers, for
// checkpoints.
struct LoaderPosition {
  std::int64_t epoch = 0;
  std::int64_t cursor = 0;       // all samples before this place of the epoch's order have been handed out,
  std::int64_t taken = 0;        // and those at cursor + 1 + i for which bit i is set
  std::int64_t micro_batch = 0;  // micro-batches of the current step that come before
  std::int64_t seed = 0;         // of the order and of the masks
  friend bool operator==(const LoaderPosition&, const LoaderPosition&) = default;
};

// The micro-batches of one process of a training run, one epoch after the other. A global batch is P
// micro-batches in order, of which process p of W takes micro-batches p, p + W, …; what is in them depends on
// neither p nor W.
class BatchStream {
 public:
  struct MicroBatch {
    std::span<const std::byte> block;  // what a device is sent; valid until the next call of next or seek
    std::int64_t targets = 0;          // what the sum of the gradient is divided by
    std::int64_t units = 0;            // what speed is counted in: tokens, or examples
  };

  virtual ~BatchStream() = default;
  // Error if the data cannot be read any more.
  virtual MicroBatch next() = 0;
  // Behind the micro-batches handed out; behind the whole step once this process has had its share of it, so
  // that it is then the same for every process and any number of processes.
  virtual LoaderPosition position() const = 0;
  // Continues exactly from there (also with the seed that was in use). Error if it does not belong to these
  // samples.
  virtual void seek(const LoaderPosition& position) = 0;
  virtual std::int64_t samples_per_epoch() const = 0;
  // Of all processes together, in epoch 0; may read all samples' lengths.
  virtual std::int64_t micro_batches_per_epoch() const = 0;
};

}  // namespace comera::data
