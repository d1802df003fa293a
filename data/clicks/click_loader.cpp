#include "data/clicks/click_loader.h"

#include <algorithm>
#include <span>

#include "data/batching/prefetcher.h"
#include "data/shards/permutation.h"
#include "storage/hash.h"

namespace comera::data {
namespace {

constexpr std::int64_t block_rows = 4096;  // kept together: a chunk of a shard's file
constexpr std::int64_t window_rows = 16 * block_rows;

// The examples of an epoch by their index in its order. One window of them is in memory: indices [w *
// window_rows, (w + 1) * window_rows).
class EpochRows {
 public:
  EpochRows(const ClickShardSet& shards, ClickOrder order)
      : shards_(shards),
        shuffled_(order == ClickOrder::shuffled),
        blocks_count_(shards.rows() / block_rows),
        rest_(shards.rows() % block_rows) {}

  void begin_epoch(std::int64_t seed, std::int64_t epoch) {
    seed_ = static_cast<std::uint64_t>(seed);
    epoch_ = epoch;
    blocks_ = Permutation(blocks_count_, seed_, epoch);
    rest_begin_ = Permutation(blocks_count_ + 1, seed_, epoch)[0] * block_rows;
    window_ = -1;
  }

  // Adds the examples with indices [first, first + count).
  void add_to(Clicks& batch, std::int64_t first, std::int64_t count) {
    const auto dense_features = static_cast<std::size_t>(shards_.info().dense_features);
    const auto tables = static_cast<std::size_t>(shards_.info().tables());
    for (std::int64_t place = first; place < first + count; ++place) {
      load(place / window_rows);
      const std::int64_t in_window = place % window_rows;
      const auto row = static_cast<std::size_t>(shuffled_ ? within_[in_window] : in_window);
      batch.add(std::span(rows_.dense_features).subspan(row * dense_features, dense_features),
                std::span<const std::int32_t>(rows_.ids).subspan(row * tables, tables), rows_.labels[row]);
    }
  }

 private:
  // Rows that are contiguous in the shards and consecutive in the order, before rows are permuted.
  struct Run {
    std::int64_t row = 0, count = 0;
  };

  // The whole blocks are permuted. The rest after the last whole block comes before one of them, or last.
  Run run_at(std::int64_t place) const {
    if (!shuffled_) return {place, shards_.rows() - place};
    const std::int64_t past = place - rest_begin_;
    if (past >= 0 && past < rest_) return {blocks_count_ * block_rows + past, rest_ - past};
    if (past >= 0) place -= rest_;
    const std::int64_t in_block = place % block_rows;
    return {blocks_[place / block_rows] * block_rows + in_block, block_rows - in_block};
  }

  void load(std::int64_t window) {
    if (window == window_) return;
    window_ = -1;
    const std::int64_t begin = window * window_rows, end = std::min(begin + window_rows, shards_.rows());
    rows_.resize(0, shards_.info().dense_features, shards_.info().tables());
    for (std::int64_t place = begin; place < end;) {
      const Run run = run_at(place);
      const std::int64_t count = std::min({run.count, end - place, block_rows});
      shards_.read(run.row, count, part_);
      rows_.labels.insert(rows_.labels.end(), part_.labels.begin(), part_.labels.end());
      rows_.dense_features.insert(rows_.dense_features.end(), part_.dense_features.begin(),
                                  part_.dense_features.end());
      rows_.ids.insert(rows_.ids.end(), part_.ids.begin(), part_.ids.end());
      place += count;
    }
    // Each window has another order.
    within_ = Permutation(end - begin, storage::mix64(seed_) + static_cast<std::uint64_t>(window), epoch_);
    window_ = window;
  }

  const ClickShardSet& shards_;
  bool shuffled_;
  std::int64_t blocks_count_, rest_;  // whole blocks, and remaining rows
  std::uint64_t seed_ = 0;
  std::int64_t epoch_ = 0;
  Permutation blocks_;
  std::int64_t rest_begin_ = 0;  // the index where the rest comes
  std::int64_t window_ = -1;     // the window in memory; −1: none
  ClickExamples rows_, part_;
  Permutation within_;
};

ClickLoaderOptions checked(ClickLoaderOptions options, const ClickShardInfo& info) {
  const ClickCapacity& capacity = options.capacity;
  if (capacity.dense_features != info.dense_features || std::ssize(capacity.tables) != info.tables())
    throw UsageError(fmt::format(
        "the {} shards have {} numbers and {} tables, a batch has {} and {}; take shards that "
        "were made for the model",
        info.split, info.dense_features, info.tables(), capacity.dense_features, capacity.tables.size()));
  if (capacity.examples < 1) throw UsageError("a micro-batch of clicks needs room for at least one example");
  const ClickCapacity needed = ClickCapacity::single(capacity.examples, info.dense_features, info.heights);
  for (std::size_t t = 0; t < needed.tables.size(); ++t)
    if (capacity.tables[t].ids < needed.tables[t].ids ||
        capacity.tables[t].unique_ids < needed.tables[t].unique_ids)
      throw UsageError(
          fmt::format("a micro-batch of {} examples needs room for {} ids of table {}, {} of them distinct; "
                      "it has {} and {}",
                      capacity.examples, needed.tables[t].ids, t, needed.tables[t].unique_ids,
                      capacity.tables[t].ids, capacity.tables[t].unique_ids));
  options.share().check();
  return options;
}

struct Prepared {
  Clicks clicks;
  std::int64_t first = 0;
  LoaderPosition after = {};
  bool end = false;  // of one pass
};

// Makes the micro-batches of all processes, one after the other. For one thread.
class ClickPacker {
 public:
  ClickPacker(const ClickShardSet& shards, const ClickLoaderOptions& options)
      : rows_(shards, options.order),
        count_(shards.rows()),
        examples_(options.capacity.examples),
        micro_batches_per_step_(options.micro_batches_per_step),
        one_pass_(options.one_pass) {
    seek({.seed = options.seed});
  }

  // False at the end of one pass.
  bool next(Prepared& prepared) { return micro_batch(&prepared); }
  bool skip() { return micro_batch(nullptr); }

  const LoaderPosition& position() const { return position_; }

  void seek(const LoaderPosition& position) {
    COMERA_CHECK(position.epoch >= 0 && position.cursor >= 0 && position.cursor <= count_ &&
                     position.taken == 0 && position.micro_batch >= 0 &&
                     position.micro_batch < micro_batches_per_step_,
                 "the position to resume from (epoch {}, row {}, micro-batch {}) does not fit {} rows and {} "
                 "micro-batches per "
                 "step: resume with the shards and the batch it was saved with",
                 position.epoch, position.cursor, position.micro_batch, count_, micro_batches_per_step_);
    position_ = position;
    rows_.begin_epoch(position_.seed, position_.epoch);
  }

 private:
  bool micro_batch(Prepared* prepared) {
    if (position_.cursor == count_) {
      if (one_pass_) return false;
      ++position_.epoch;
      position_.cursor = 0;
      rows_.begin_epoch(position_.seed, position_.epoch);
    }
    const std::int64_t count = std::min(examples_, count_ - position_.cursor);
    if (prepared != nullptr) {
      prepared->clicks.clear();
      rows_.add_to(prepared->clicks, position_.cursor, count);
      prepared->first = position_.cursor;
    }
    position_.cursor += count;
    position_.micro_batch = (position_.micro_batch + 1) % micro_batches_per_step_;
    return true;
  }

  EpochRows rows_;
  std::int64_t count_, examples_, micro_batches_per_step_;
  bool one_pass_;
  LoaderPosition position_;
};

}  // namespace

struct ClickLoader::Impl {
  Impl(const ClickShardSet& given_shards, const ClickLoaderOptions& given)
      : shards(given_shards),
        options(checked(given, shards.info())),
        packer(shards, options),
        position(packer.position()),
        ahead(empty(options), [this](Prepared& prepared) { return prepare(prepared); }) {}

  static std::vector<Prepared> empty(const ClickLoaderOptions& options) {
    std::vector<Prepared> all;
    const std::int64_t count = std::max<std::int64_t>(options.prefetch, 0) + 1;
    all.reserve(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i)
      all.push_back({.clicks = Clicks(options.capacity, options.right_rows)});
    return all;
  }

  bool prepare(Prepared& prepared) {
    prepared.end = !options.share().next(packer, prepared);
    if (!prepared.end) prepared.clicks.finish();
    prepared.after = packer.position();
    return !prepared.end;
  }

  const Prepared& current() const {
    COMERA_CHECK(handed_out != nullptr, "the loader of clicks has handed out no micro-batch to look at");
    return *handed_out;
  }

  const ClickShardSet& shards;
  const ClickLoaderOptions options;
  ClickPacker packer;
  LoaderPosition position;
  const Prepared* handed_out = nullptr;
  Prefetcher<Prepared> ahead;  // ends before what its thread uses
};

ClickLoader::ClickLoader(const ClickShardSet& shards, const ClickLoaderOptions& options)
    : impl_(std::make_unique<Impl>(shards, options)) {}
ClickLoader::~ClickLoader() = default;

std::optional<BatchStream::MicroBatch> ClickLoader::try_next() {
  impl_->handed_out = nullptr;
  const Prepared& prepared = impl_->ahead.next();
  impl_->position = prepared.after;
  if (prepared.end) return std::nullopt;
  impl_->handed_out = &prepared;
  const std::int64_t examples = prepared.clicks.examples();
  return MicroBatch{
      .block = prepared.clicks.block(), .targets = static_cast<double>(examples), .units = examples};
}

BatchStream::MicroBatch ClickLoader::next() {
  const std::optional<MicroBatch> micro_batch = try_next();
  COMERA_CHECK(micro_batch, "the loader of clicks has no more micro-batches: its one pass is over");
  return *micro_batch;
}

const Clicks& ClickLoader::clicks() const { return impl_->current().clicks; }
std::int64_t ClickLoader::first() const { return impl_->current().first; }

LoaderPosition ClickLoader::position() const { return impl_->position; }

void ClickLoader::seek(const LoaderPosition& position) {
  impl_->ahead.restart([&] { impl_->packer.seek(position); });
  impl_->position = position;
  impl_->handed_out = nullptr;
}

std::int64_t ClickLoader::samples_per_epoch() const { return impl_->shards.rows(); }

std::int64_t ClickLoader::micro_batches_per_epoch() const {
  const std::int64_t examples = impl_->options.capacity.examples;
  return (impl_->shards.rows() + examples - 1) / examples;
}

}  // namespace comera::data
