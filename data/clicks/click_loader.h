#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "data/batching/batch_stream.h"
#include "data/batching/step_share.h"
#include "data/clicks/click_batch.h"
#include "data/clicks/click_shards.h"

namespace comera::data {

// The order of an epoch's rows.
enum class ClickOrder : std::uint8_t {
  time,  // in the order of the shards
  // Ordered by (seed, epoch): blocks of 4,096 consecutive rows are permuted, and then the rows of every 16 of
  // them.
  shuffled,
};

struct ClickLoaderOptions {
  ClickCapacity capacity;                // a micro-batch has capacity.examples examples
  std::vector<std::int64_t> right_rows;  // per table, as for Clicks
  ClickOrder order = ClickOrder::time;
  std::int64_t seed = 0;
  std::int64_t micro_batches_per_step = 1;   // P: a global batch is P micro-batches in order
  std::int64_t process = 0, world_size = 1;  // process p of W takes micro-batches p, p + W, …
  bool one_pass = false;                     // over the rows, in the order of epoch 0: for evaluation
  std::int64_t prefetch = 2;                 // micro-batches prepared ahead by a thread; 0: no thread

  StepShare share() const { return {micro_batches_per_step, process, world_size}; }
};

// The micro-batches of the encoded examples of one split. Every row comes exactly once per epoch; the last
// micro-batch of an epoch is shorter. The micro-batches do not depend on process, world_size or prefetching.
// Memory: 65,536 rows, and the prefetched micro-batches. A position's `cursor` counts the delivered rows of
// the epoch, and `taken` is 0.
class ClickLoader final : public BatchStream {
 public:
  // shards must outlive the loader. UsageError if they do not fit the options.
  ClickLoader(const ClickShardSet& shards, const ClickLoaderOptions& options);
  ~ClickLoader() override;
  ClickLoader(const ClickLoader&) = delete;
  ClickLoader& operator=(const ClickLoader&) = delete;

  // Also an Error after the end of one pass. Exceptions of the prefetch thread are rethrown here, after the
  // micro-batches before them.
  MicroBatch next() override;
  // None after the end of one pass.
  std::optional<MicroBatch> try_next();

  // The batch that was delivered last, while it is valid, and the index of its first example in the order of
  // the epoch, which in order of time is the row in the shards.
  const Clicks& clicks() const;
  std::int64_t first() const;

  LoaderPosition position() const override;
  void seek(const LoaderPosition& position) override;
  std::int64_t samples_per_epoch() const override;
  std::int64_t micro_batches_per_epoch() const override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace comera::data
