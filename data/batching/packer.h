#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "data/batching/loader.h"
#include "data/shards/permutation.h"
#include "data/shards/samples.h"

namespace comera::data {

// Makes the sequence of micro-batches described at Loader, one after the other. For one thread.
class Packer {
 public:
  Packer(std::unique_ptr<SampleSource> samples, const LoaderOptions& options);

  // The next micro-batch of the step, without finish_batch. False at the end of one pass.
  bool next(Batch& batch) { return micro_batch(&batch); }
  // Skips it. If its size is known without reading, nothing is read.
  bool skip();

  // Micro-batches of epoch 0, see Loader. While another thread packs, only if counts_by_length().
  std::int64_t count_micro_batches();
  // Whether the number of targets is known without reading the samples.
  bool counts_by_length() const { return masking_.counts_by_length() && !samples_->masked(); }

  const LoaderPosition& position() const { return position_; }
  void seek(const LoaderPosition& position);
  const SampleSource& samples() const { return *samples_; }

 private:
  static constexpr std::int64_t window = 63;  // positions after the cursor that `taken` can represent

  // A sample of the window, masked after reading, and kept while it waits.
  struct Prepared {
    std::int64_t place = -1;
    std::int64_t number = 0;  // index of the sample
    std::int64_t tokens = 0, targets = 0;
    bool read = false;
    Sample sample;
  };
  // Sizes of the micro-batch being filled.
  struct Filled {
    std::int64_t sequences = 0, tokens = 0, targets = 0;
  };
  bool micro_batch(Batch* batch);
  // With the share of masks of the current step.
  Masking masking_of_step() const;
  // Also masks it, unless it is masked already.
  void read_masked(const Masking& masking, const MaskingKey& key, Sample& sample);
  Prepared& prepare(std::int64_t place);
  void read(Prepared& prepared);
  bool fits(const Prepared& prepared, const Filled& filled, const Batch* batch);
  // Offers the remaining samples of the window, in order, until full() or the end.
  template <class Full, class Offer>
  void offer_all(LoaderPosition& position, Full&& full, Offer&& offer) const;
  std::int64_t sample_at(const Permutation& order, std::int64_t place) const;
  void begin_epoch();
  void begin_step();
  void forget_prepared();

  LoaderOptions options_;
  std::unique_ptr<SampleSource> samples_;
  Masking masking_;
  Permutation order_;
  LoaderPosition position_;
  std::array<Prepared, window + 1> prepared_;
  bool counts_unique_;                 // whether there can be more distinct ids than fit
  bool sizes_suffice_;                 // whether the lengths alone decide what fits
  std::unique_ptr<Batch> scratch_;     // for skipped micro-batches, if they do not
  std::vector<std::int64_t> seen_in_;  // per id: the last micro-batch that has it
  std::int64_t micro_batch_number_ = 0;
  std::int64_t unique_ = 0;
};

}  // namespace comera::data
