#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "data/batching/batch.h"
#include "data/batching/batch_stream.h"
#include "data/batching/step_share.h"
#include "data/masking/masking.h"
#include "data/shards/samples.h"
#include "data/shards/shard.h"

namespace comera::data {

struct LoaderOptions {
  MicroBatchCapacity capacity;
  MaskingOptions masking;
  // If given, the share of masks goes linearly from masking.probability in the first step to this one in the
  // last of `steps` (and stays there).
  std::optional<double> final_mask_probability;
  std::int64_t steps = 0;
  std::int64_t seed = 0;
  std::int64_t micro_batches_per_step = 1;   // P: a global batch is P micro-batches in order
  std::int64_t process = 0, world_size = 1;  // process p of W takes micro-batches p, p + W, …
  std::int64_t right_modulus = 0;            // see finish_batch
  // One pass over the samples in the order of the shards, with the masks of epoch 0: for evaluation.
  bool one_pass = false;
  // With one_pass: in the order of epoch 0, so that the first micro-batches are a random sample of the set.
  bool permuted = false;
  std::int64_t prefetch = 2;             // batches prepared ahead by a thread; 0: no thread
  std::int64_t cache_bytes = 256 << 20;  // tokens kept in memory

  StepShare share() const { return {micro_batches_per_step, process, world_size}; }
  double mask_probability(std::int64_t step) const;
};

// Packs whole samples (data/shards/samples.h) into micro-batches. The order is a permutation of the samples
// by (seed, epoch). A micro-batch takes the first remaining sample, then every further one that still fits,
// at most 64 positions beyond the first one. A sample is masked with the share of the step that it is packed
// for. The micro-batches do not depend on process, world_size or prefetching; an epoch's last micro-batch is
// as full as the samples allow. Every sample comes exactly once per epoch.
class Loader {
 public:
  // shards must outlive the loader.
  Loader(const ShardSet& shards, const LoaderOptions& options);
  Loader(std::unique_ptr<SampleSource> samples, const LoaderOptions& options);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // This process's next micro-batch, valid until the next call of next, try_next or seek. Error after the end
  // of one pass. Exceptions of the prefetch thread are rethrown here, after the batches before them.
  const Batch& next();
  // Null after the end of one pass.
  const Batch* try_next();

  // The position after the delivered micro-batches. Once this process has had its share of a step, the
  // position after the whole step, which is the same for every process and any number of processes.
  LoaderPosition position() const;
  // Continues exactly from there, including the seed. Error if the position does not belong to these samples.
  void seek(const LoaderPosition& position);

  std::int64_t epoch() const { return position().epoch; }
  std::int64_t samples_per_epoch() const;
  // For epoch 0, or for one pass, by packing: about a second per 200 million tokens of samples. The samples
  // are not read, unless whole words are masked or the samples have their own targets. Exact if a batch has
  // room for every distinct id and no document contains special pieces, and almost exact otherwise.
  std::int64_t count_micro_batches_per_epoch() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace comera::data
