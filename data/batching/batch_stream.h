#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace comera::data {

// The position of a loader: which samples of the epoch's order have been delivered. Plain integers, for
// checkpoints.
struct LoaderPosition {
  std::int64_t epoch = 0;
  std::int64_t cursor = 0;       // all samples before this index of the epoch's order have been delivered,
  std::int64_t taken = 0;        // and sample cursor + 1 + i for each bit i that is set
  std::int64_t micro_batch = 0;  // preceding micro-batches of the current step
  std::int64_t seed = 0;         // of order and masks
  std::int64_t step = 0;         // preceding steps, which a share of masks that changes depends on
  friend bool operator==(const LoaderPosition&, const LoaderPosition&) = default;
};

// The micro-batches of one process of a training run, epoch after epoch. A global batch is P micro-batches in
// order. Process p of W takes micro-batches p, p + W, …; their content depends on neither p nor W.
class BatchStream {
 public:
  struct MicroBatch {
    std::span<const std::byte> block;  // for upload; valid until the next call of next or seek
    double targets = 0;                // the divisor of the summed gradient
    std::int64_t units = 0;            // the unit of speed: tokens or examples
  };

  virtual ~BatchStream() = default;
  // Error if the data have become unreadable.
  virtual MicroBatch next() = 0;
  // The position after the delivered micro-batches. Once this process has had its share of a step, the
  // position after the whole step, which is the same for every process and any number of processes.
  virtual LoaderPosition position() const = 0;
  // Continues exactly from there, including the seed. Error if the position does not belong to these samples.
  virtual void seek(const LoaderPosition& position) = 0;
  virtual std::int64_t samples_per_epoch() const = 0;
  // For all processes together, in epoch 0; may read all samples' lengths.
  virtual std::int64_t micro_batches_per_epoch() const = 0;
};

}  // namespace comera::data
