#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "data/loader.h"
#include "data/permutation.h"
#include "data/samples.h"

namespace comera::data {

// Makes the sequence of packs that Loader describes, one after the other. For one thread.
class Packer {
 public:
  Packer(std::unique_ptr<SampleSource> samples, const LoaderOptions& options);

  // The next pack of the step, without finish_batch. False at the end of one pass.
  bool next(Batch& batch);

  // Packs of epoch 0 by the lengths of its samples, see Loader. May be called while another thread packs.
  std::int64_t count_packs() const;

  const LoaderPosition& position() const { return position_; }
  void seek(const LoaderPosition& position);
  const SampleSource& samples() const { return *samples_; }

 private:
  static constexpr std::int64_t window = 63;  // places after the cursor that `taken` can describe

  // A masked sample, kept while it waits in the window.
  struct Prepared {
    std::int64_t place = -1;
    std::int64_t number = 0;  // of the sample
    Sample sample;
    Targets targets;
  };
  Prepared& prepare(std::int64_t place);
  bool fits(const Prepared& prepared, const Batch& batch);
  // Offers the samples left within the window, in order, until full() or the end.
  template <class Full, class Offer>
  void offer_all(LoaderPosition& position, Full&& full, Offer&& offer) const;
  std::int64_t sample_at(const Permutation& order, std::int64_t place) const;
  void begin_epoch();

  LoaderOptions options_;
  std::unique_ptr<SampleSource> samples_;
  Masking masking_;
  Permutation order_;
  LoaderPosition position_;
  std::array<Prepared, window + 1> prepared_;
  bool counts_unique_;                 // whether distinct ids can be more than fit
  std::vector<std::int64_t> seen_in_;  // vocabulary: the last pack that has the id
  std::int64_t pack_number_ = 0;
  std::int64_t unique_ = 0;
};

}  // namespace comera::data
