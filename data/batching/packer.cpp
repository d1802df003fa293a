#include "data/batching/packer.h"

#include <algorithm>
#include <bit>

namespace comera::data {
namespace {

LoaderOptions checked(LoaderOptions options, const SampleSource& samples) {
  const MicroBatchCapacity& capacity = options.capacity;
  const std::int64_t together = samples.sequences_per_sample();
  if (together * capacity.longest > capacity.tokens || capacity.sequences < together)
    throw UsageError(
        fmt::format("a micro-batch of {} tokens and {} sequences has no room for {} of {} tokens; raise "
                    "tokens_per_micro_batch",
                    capacity.tokens, capacity.sequences, together == 1 ? "a sequence" : "a pair of sequences",
                    capacity.longest));
  if (capacity.unique_ids < std::min<std::int64_t>(capacity.longest, samples.vocabulary()))
    throw UsageError(fmt::format("a batch with room for {} distinct ids cannot take a sequence of {} tokens",
                                 capacity.unique_ids, capacity.longest));
  if (options.masking.probability > 0 && capacity.masked < 1)
    throw UsageError("a batch without room for masked positions cannot be masked");
  options.share().check();
  // A sample with more targets than a batch can hold would never fit.
  auto& most = options.masking.most_targets;
  most = most < 0 ? capacity.masked : std::min(most, capacity.masked);
  return options;
}

constexpr std::int64_t shortest = 3;  // [CLS], a token, [SEP]

bool is_taken(const LoaderPosition& position, std::int64_t place) {
  const std::int64_t bit = place - position.cursor - 1;
  return bit < -1 || (bit >= 0 && ((position.taken >> bit) & 1) != 0);
}

void take(LoaderPosition& position, std::int64_t place) {
  if (place > position.cursor) {
    position.taken |= std::int64_t{1} << (place - position.cursor - 1);
    return;
  }
  // Skips this one and all taken ones that directly follow it.
  const int run = std::countr_one(static_cast<std::uint64_t>(position.taken));
  position.cursor += run + 1;
  position.taken = position.taken >> run >> 1;
}

}  // namespace

Packer::Packer(std::unique_ptr<SampleSource> samples, const LoaderOptions& options)
    : options_(checked(options, *samples)),
      samples_(std::move(samples)),
      masking_(options_.masking, samples_->vocabulary(), samples_->special()),
      counts_unique_(options.capacity.unique_ids <
                     std::min<std::int64_t>(options.capacity.tokens, samples_->vocabulary())),
      sizes_suffice_(counts_by_length() && !counts_unique_) {
  if (counts_unique_) seen_in_.assign(static_cast<std::size_t>(samples_->vocabulary()), 0);
  position_.seed = options.seed;
  begin_epoch();
}

void Packer::forget_prepared() {
  for (Prepared& prepared : prepared_) prepared.place = -1;
}

void Packer::begin_epoch() {
  samples_->begin_epoch(static_cast<std::uint64_t>(position_.seed), position_.epoch);
  order_ = Permutation(samples_->count(), static_cast<std::uint64_t>(position_.seed), position_.epoch);
  forget_prepared();
}

// Samples that wait have the masks of the step before.
void Packer::begin_step() {
  if (!options_.final_mask_probability) return;
  masking_ = masking_of_step();
  forget_prepared();
}

Masking Packer::masking_of_step() const {
  MaskingOptions options = options_.masking;
  options.probability = options_.mask_probability(position_.step);
  return {options, samples_->vocabulary(), samples_->special()};
}

void Packer::seek(const LoaderPosition& position) {
  COMERA_CHECK(position.epoch >= 0 && position.step >= 0 && position.cursor >= 0 &&
                   position.cursor <= samples_->count() && position.taken >= 0 && position.micro_batch >= 0 &&
                   position.micro_batch < options_.micro_batches_per_step,
               "the position to resume from (epoch {}, place {}, micro-batch {}) does not fit {} samples and "
               "{} micro-batches per "
               "step: resume with the shards and the batch it was saved with",
               position.epoch, position.cursor, position.micro_batch, samples_->count(),
               options_.micro_batches_per_step);
  position_ = position;
  begin_epoch();
  begin_step();
}

void Packer::read_masked(const Masking& masking, const MaskingKey& key, Sample& sample) {
  samples_->read(key.sample, sample);
  if (!sample.masked) masking.apply(key, sample.ids, sample.targets);
  COMERA_CHECK(static_cast<std::int64_t>(sample.targets.ids.size()) <= options_.capacity.masked,
               "sample {} has {} targets, a batch has room for {}; give it room for more tokens", key.sample,
               sample.targets.ids.size(), options_.capacity.masked);
}

Packer::Prepared& Packer::prepare(std::int64_t place) {
  Prepared& prepared = prepared_[static_cast<std::size_t>(place) % prepared_.size()];
  if (prepared.place == place) return prepared;
  prepared.place = -1;
  prepared.number = sample_at(order_, place);
  prepared.read = false;
  if (sizes_suffice_) {
    prepared.tokens = samples_->length(prepared.number);
    prepared.targets = masking_.count_targets(
        {static_cast<std::uint64_t>(position_.seed), position_.epoch, prepared.number}, prepared.tokens);
  } else {
    read(prepared);
  }
  prepared.place = place;
  return prepared;
}

void Packer::read(Prepared& prepared) {
  if (prepared.read) return;
  read_masked(masking_, {static_cast<std::uint64_t>(position_.seed), position_.epoch, prepared.number},
              prepared.sample);
  prepared.read = true;
  // Sizes known without reading are kept, because processes that do not read a sample use them too. Unknown
  // pieces are not targets, so that there may be fewer targets than reserved.
  if (sizes_suffice_) return;
  prepared.tokens = static_cast<std::int64_t>(prepared.sample.ids.size());
  prepared.targets = static_cast<std::int64_t>(prepared.sample.targets.ids.size());
}

std::int64_t Packer::sample_at(const Permutation& order, std::int64_t place) const {
  return options_.one_pass && !options_.permuted ? place : order[place];
}

bool Packer::fits(const Prepared& prepared, const Filled& filled, const Batch* batch) {
  const MicroBatchCapacity& capacity = options_.capacity;
  if (filled.sequences + samples_->sequences_per_sample() > capacity.sequences ||
      filled.tokens + prepared.tokens > capacity.tokens ||
      filled.targets + prepared.targets > capacity.masked)
    return false;
  if (!counts_unique_) return true;
  std::int64_t added = 0;
  for (const std::int32_t id : prepared.sample.ids)
    if (seen_in_[id] != micro_batch_number_) {
      seen_in_[id] = micro_batch_number_;
      ++added;
    }
  if (unique_ + added <= options_.capacity.unique_ids) {
    unique_ += added;
    return true;
  }
  // Only the micro-batch's content counts: marks it again.
  ++micro_batch_number_;
  for (std::int32_t i = 0; i < batch->tokens; ++i) seen_in_[batch->token_ids[i]] = micro_batch_number_;
  return false;
}

template <class Full, class Offer>
void Packer::offer_all(LoaderPosition& position, Full&& full, Offer&& offer) const {
  for (std::int64_t place = position.cursor;
       place < std::min(position.cursor + window + 1, samples_->count()); ++place) {
    if (full()) break;
    if (!is_taken(position, place) && offer(place)) take(position, place);
  }
}

bool Packer::skip() {
  if (sizes_suffice_) return micro_batch(nullptr);
  if (!scratch_) scratch_ = std::make_unique<Batch>(options_.capacity);
  return micro_batch(scratch_.get());
}

bool Packer::micro_batch(Batch* batch) {
  if (position_.cursor >= samples_->count()) {
    if (options_.one_pass) return false;
    ++position_.epoch;
    position_.cursor = 0;
    position_.taken = 0;
    begin_epoch();
  }
  if (batch != nullptr) batch->clear();
  ++micro_batch_number_;
  unique_ = 0;
  const MicroBatchCapacity& capacity = options_.capacity;
  const std::int64_t together = samples_->sequences_per_sample();
  Filled filled;
  const auto full = [&] {
    return filled.sequences + together > capacity.sequences || filled.tokens + shortest > capacity.tokens;
  };
  offer_all(position_, full, [&](std::int64_t place) {
    Prepared& prepared = prepare(place);
    if (!fits(prepared, filled, batch)) return false;
    if (batch != nullptr) {
      read(prepared);
      batch->add_sequence(prepared.sample, prepared.sample.targets, prepared.number);
    }
    filled.sequences += together;
    filled.tokens += prepared.tokens;
    filled.targets += prepared.targets;
    return true;
  });
  position_.micro_batch = (position_.micro_batch + 1) % options_.micro_batches_per_step;
  if (position_.micro_batch == 0) {
    ++position_.step;
    begin_step();
  }
  return true;
}

std::int64_t Packer::count_micro_batches() {
  struct Size {
    std::int64_t place = -1, tokens = 0, targets = 0;
  };
  const std::vector<std::int32_t> lengths = samples_->lengths();
  const auto seed = static_cast<std::uint64_t>(options_.seed);
  const Permutation order(samples_->count(), seed, 0);
  const MicroBatchCapacity& capacity = options_.capacity;
  std::array<Size, window + 1> sizes;
  Sample scratch;
  const Masking masking(options_.masking, samples_->vocabulary(), samples_->special());  // of the first step
  std::int64_t micro_batches = 0;
  for (LoaderPosition position; position.cursor < samples_->count(); ++micro_batches) {
    std::int64_t sequences = 0, tokens = 0, targets = 0;
    const std::int64_t more = samples_->sequences_per_sample();
    const auto full = [&] {
      return sequences + more > capacity.sequences || tokens + shortest > capacity.tokens;
    };
    offer_all(position, full, [&](std::int64_t place) {
      Size& size = sizes[static_cast<std::size_t>(place) % sizes.size()];
      if (size.place != place) {
        const std::int64_t sample = sample_at(order, place);
        const std::int64_t length = lengths[sample];
        size = {place, length, 0};
        if (counts_by_length()) {
          size.targets = masking.count_targets({seed, 0, sample}, length);
        } else {
          read_masked(masking, {seed, 0, sample}, scratch);
          size.targets = static_cast<std::int64_t>(scratch.targets.ids.size());
        }
      }
      if (tokens + size.tokens > capacity.tokens || targets + size.targets > capacity.masked) return false;
      sequences += more;
      tokens += size.tokens;
      targets += size.targets;
      return true;
    });
  }
  return micro_batches;
}

}  // namespace comera::data
