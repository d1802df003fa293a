#include "data/loader.h"

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "data/packer.h"

namespace comera::data {

struct Loader::Impl {
  struct Slot {
    Batch batch;
    LoaderPosition after;
    bool end = false;  // of one pass
    std::exception_ptr failure;
  };

  Impl(std::unique_ptr<SampleSource> samples, const LoaderOptions& given)
      : options(given),
        packer(std::move(samples), given),
        slots(static_cast<std::size_t>(std::max<std::int64_t>(given.prefetch, 0)) + 1) {
    for (Slot& slot : slots) slot.batch = Batch(options.capacity);
    position = packer.position();
    start();
  }
  ~Impl() { stop(); }

  // Whether the step's pack of that number is this process's.
  bool mine(std::int64_t pack) const { return pack % options.world_size == options.process; }

  // Fills the slot with this process's next pack, and passes the rest of the step once its share of it is
  // done.
  void fill(Slot& slot) {
    slot.failure = nullptr;
    slot.end = true;
    try {
      while (slot.end) {
        const bool wanted = mine(packer.position().pack);
        if (!(wanted ? packer.next(slot.batch) : packer.skip())) break;
        slot.end = !wanted;
      }
      if (!slot.end) {
        finish_batch(slot.batch, options.right_modulus);
        pass_others();
      }
    } catch (...) {
      slot.failure = std::current_exception();
    }
    slot.after = packer.position();
  }

  void pass_others() {
    std::int64_t pack = packer.position().pack;
    while (pack != 0 && !mine(pack)) pack = (pack + 1) % options.packs_per_step;
    if (pack != 0) return;
    while (packer.position().pack != 0 && packer.skip()) {
    }
  }

  void start() {
    if (options.prefetch <= 0) return;
    running = true;
    thread = std::thread([this] { work(); });
  }

  void stop() {
    if (!thread.joinable()) return;
    {
      const std::lock_guard lock(mutex);
      running = false;
    }
    changed.notify_all();
    thread.join();
  }

  // Slots form a ring: `used` of them are filled or held by the caller, starting at `head`.
  void work() {
    for (;;) {
      std::size_t at = 0;
      {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return !running || used < slots.size(); });
        if (!running) return;
        at = (head + used) % slots.size();
      }
      fill(slots[at]);
      const bool last = slots[at].end || slots[at].failure;
      {
        const std::lock_guard lock(mutex);
        ++used;
      }
      changed.notify_all();
      if (last) return;
    }
  }

  Slot& take() {
    if (options.prefetch <= 0) {
      fill(slots[0]);
      return slots[0];
    }
    std::unique_lock lock(mutex);
    if (held) {
      // After the last one there is nothing to wait for: give it again.
      if (slots[head].end || slots[head].failure) return slots[head];
      head = (head + 1) % slots.size();
      --used;
      held = false;
      changed.notify_all();
    }
    changed.wait(lock, [&] { return used > 0; });
    held = true;
    return slots[head];
  }

  std::int64_t count_packs() {
    if (packer.counts_by_length()) return packer.count_packs();
    stop();  // samples are for one thread
    const std::int64_t packs = packer.count_packs();
    start();
    return packs;
  }

  const LoaderOptions options;
  Packer packer;
  std::vector<Slot> slots;
  LoaderPosition position;

  std::thread thread;
  std::mutex mutex;
  std::condition_variable changed;
  std::size_t head = 0, used = 0;
  bool held = false;  // the caller has slots[head]
  bool running = false;
};

Loader::Loader(const ShardSet& shards, const LoaderOptions& options)
    : Loader(std::make_unique<Samples>(shards, options.capacity.longest, options.cache_bytes), options) {}
Loader::Loader(std::unique_ptr<SampleSource> samples, const LoaderOptions& options)
    : impl_(std::make_unique<Impl>(std::move(samples), options)) {}
Loader::~Loader() = default;

const Batch* Loader::try_next() {
  const Impl::Slot& slot = impl_->take();
  if (slot.failure) std::rethrow_exception(slot.failure);
  impl_->position = slot.after;
  return slot.end ? nullptr : &slot.batch;
}

const Batch& Loader::next() {
  const Batch* batch = try_next();
  COMERA_CHECK(batch, "the loader has no more batches: its one pass is over");
  return *batch;
}

LoaderPosition Loader::position() const { return impl_->position; }

void Loader::seek(const LoaderPosition& position) {
  impl_->stop();
  impl_->packer.seek(position);
  impl_->position = position;
  impl_->head = impl_->used = 0;
  impl_->held = false;
  impl_->start();
}

std::int64_t Loader::samples_per_epoch() const { return impl_->packer.samples().count(); }

std::int64_t Loader::count_packs_per_epoch() const { return impl_->count_packs(); }

}  // namespace comera::data
