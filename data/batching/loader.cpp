#include "data/batching/loader.h"

#include <algorithm>
#include <vector>

#include "data/batching/packer.h"
#include "data/batching/prefetcher.h"

namespace comera::data {

double LoaderOptions::mask_probability(std::int64_t step) const {
  if (!final_mask_probability) return masking.probability;
  const auto last = static_cast<double>(std::max<std::int64_t>(steps - 1, 1));
  const double done = std::min(static_cast<double>(step) / last, 1.0);
  return masking.probability + (*final_mask_probability - masking.probability) * done;
}

struct Loader::Impl {
  struct Prepared {
    Batch batch;
    LoaderPosition after;
    bool end = false;  // of one pass
  };

  Impl(std::unique_ptr<SampleSource> samples, const LoaderOptions& given)
      : options(given),
        packer(std::move(samples), given),
        position(packer.position()),
        ahead(empty(given), [this](Prepared& prepared) { return prepare(prepared); }) {}

  static std::vector<Prepared> empty(const LoaderOptions& options) {
    std::vector<Prepared> all(static_cast<std::size_t>(std::max<std::int64_t>(options.prefetch, 0)) + 1);
    for (Prepared& prepared : all) prepared.batch = Batch(options.capacity);
    return all;
  }

  bool prepare(Prepared& prepared) {
    prepared.end = !options.share().next(packer, prepared.batch);
    if (!prepared.end) {
      packer.samples().complete(prepared.batch);
      finish_batch(prepared.batch, options.right_modulus);
    }
    prepared.after = packer.position();
    return !prepared.end;
  }

  std::int64_t count_micro_batches() {
    if (packer.counts_by_length()) return packer.count_micro_batches();
    std::int64_t micro_batches = 0;
    ahead.pause([&] { micro_batches = packer.count_micro_batches(); });  // samples are for one thread
    return micro_batches;
  }

  const LoaderOptions options;
  Packer packer;
  LoaderPosition position;
  Prefetcher<Prepared> ahead;  // ends before what its thread uses
};

Loader::Loader(const ShardSet& shards, const LoaderOptions& options)
    : Loader(std::make_unique<Samples>(shards, options.capacity.longest, options.cache_bytes), options) {}
Loader::Loader(std::unique_ptr<SampleSource> samples, const LoaderOptions& options)
    : impl_(std::make_unique<Impl>(std::move(samples), options)) {}
Loader::~Loader() = default;

const Batch* Loader::try_next() {
  const Impl::Prepared& prepared = impl_->ahead.next();
  impl_->position = prepared.after;
  return prepared.end ? nullptr : &prepared.batch;
}

const Batch& Loader::next() {
  const Batch* batch = try_next();
  COMERA_CHECK(batch, "the loader has no more batches: its one pass is over");
  return *batch;
}

LoaderPosition Loader::position() const { return impl_->position; }

void Loader::seek(const LoaderPosition& position) {
  impl_->ahead.restart([&] { impl_->packer.seek(position); });
  impl_->position = position;
}

std::int64_t Loader::samples_per_epoch() const { return impl_->packer.samples().count(); }

std::int64_t Loader::count_micro_batches_per_epoch() const { return impl_->count_micro_batches(); }

}  // namespace comera::data
