#pragma once

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace comera::data {

// Items prepared ahead by a thread, and delivered in order.
template <class Item>
class Prefetcher {
 public:
  // Makes the next item in place of one that is no longer needed. False if it is the last one.
  using Make = std::function<bool(Item&)>;

  // The caller holds one of the items, the others are prepared ahead. With a single item there is no thread:
  // next() makes it. `make` is called by one thread at a time.
  Prefetcher(std::vector<Item> items, Make make) : make_(std::move(make)) {
    slots_.reserve(items.size());
    for (Item& item : items) slots_.push_back({.item = std::move(item)});
    start();
  }
  ~Prefetcher() { stop(); }
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // Valid until the next call of next or restart. Exceptions of `make` are rethrown here, after the items
  // before them. The last item, or its failure, is returned again by every further call; without a thread,
  // the next call tries again.
  const Item& next() {
    if (slots_.size() == 1) {
      make_(slots_[0].item);
      return slots_[0].item;
    }
    const Slot& slot = take();
    if (slot.failure) std::rethrow_exception(slot.failure);
    return slot.item;
  }

  // Runs `call` while no item is being made. Prepared items are kept.
  template <class Call>
  void pause(Call&& call) {
    stop();
    try {
      call();
    } catch (...) {
      start();
      throw;
    }
    start();
  }

  // The same, but drops the prepared items, unless the call throws.
  template <class Call>
  void restart(Call&& call) {
    pause([&] {
      call();
      head_ = used_ = 0;
      held_ = ended_ = false;
    });
  }

 private:
  struct Slot {
    Item item;
    bool last = false;  // or failed
    std::exception_ptr failure = {};
  };

  void start() {
    if (slots_.size() == 1 || ended_) return;
    running_ = true;
    thread_ = std::thread([this] { work(); });
  }

  void stop() {
    if (!thread_.joinable()) return;
    {
      const std::lock_guard lock(mutex_);
      running_ = false;
    }
    changed_.notify_all();
    thread_.join();
  }

  void fill(Slot& slot) {
    slot.failure = nullptr;
    slot.last = true;
    try {
      slot.last = !make_(slot.item);
    } catch (...) {
      slot.failure = std::current_exception();
    }
  }

  // Slots form a ring: `used` of them are prepared or held by the caller, starting at `head`.
  void work() {
    for (;;) {
      std::size_t at = 0;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return !running_ || used_ < slots_.size(); });
        if (!running_) return;
        at = (head_ + used_) % slots_.size();
      }
      fill(slots_[at]);
      {
        const std::lock_guard lock(mutex_);
        ended_ = slots_[at].last;
        ++used_;
      }
      changed_.notify_all();
      if (slots_[at].last) return;
    }
  }

  const Slot& take() {
    std::unique_lock lock(mutex_);
    if (held_) {
      if (slots_[head_].last) return slots_[head_];
      head_ = (head_ + 1) % slots_.size();
      --used_;
      held_ = false;
      changed_.notify_all();
    }
    changed_.wait(lock, [&] { return used_ > 0; });
    held_ = true;
    return slots_[head_];
  }

  Make make_;
  std::vector<Slot> slots_;
  std::thread thread_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t head_ = 0, used_ = 0;
  bool held_ = false;   // the caller holds the slot at head
  bool ended_ = false;  // the last item has been made
  bool running_ = false;
};

}  // namespace comera::data
