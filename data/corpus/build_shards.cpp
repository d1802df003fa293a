#include "data/corpus/build_shards.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>

#include "data/corpus/documents/held_out.h"
#include "data/shards/shard.h"
#include "kernels/core/machine.h"

namespace comera::data {
namespace {

// Documents processed together, so that short files do not cost a lock each.
struct Bundle {
  std::int64_t number = 0;
  std::int64_t bytes = 0;
  std::vector<std::string> texts;
  std::vector<char> held_out;
  std::vector<std::vector<std::int32_t>> tokens;
};

constexpr std::int64_t bundle_bytes = 1 << 18;

// Reader thread → tokenizing threads → the calling thread, which writes in the order of reading. At most
// `capacity` bundles exist at any time. The first failure of any thread ends all.
class Pipeline {
 public:
  Pipeline(DocumentSource& source, const Tokenizer& tokenizer, int workers)
      : source_(source), tokenizer_(tokenizer), capacity_(4 * workers + 2) {
    threads_.emplace_back([this] { guarded([this] { read(); }); });
    for (int i = 0; i < workers; ++i) threads_.emplace_back([this] { guarded([this] { tokenize(); }); });
  }

  ~Pipeline() {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  // The next bundle in order; false at the end. Rethrows exceptions of the threads.
  bool next(Bundle& bundle) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock,
                  [&] { return failure_ || done_.contains(written_) || (finished_ && written_ == read_); });
    if (failure_) std::rethrow_exception(failure_);
    const auto found = done_.find(written_);
    if (found == done_.end()) return false;
    bundle = std::move(found->second);
    done_.erase(found);
    ++written_;
    lock.unlock();
    changed_.notify_all();
    return true;
  }

 private:
  template <class Work>
  void guarded(Work&& work) {
    try {
      work();
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!failure_) failure_ = std::current_exception();
      stopped_ = true;
    }
    changed_.notify_all();
  }

  void read() {
    Document document;
    for (bool more = true; more;) {
      Bundle bundle;
      while (bundle.bytes < bundle_bytes && (more = source_.next(document))) {
        bundle.bytes += static_cast<std::int64_t>(document.text.size());
        bundle.texts.push_back(std::move(document.text));
        bundle.held_out.push_back(document.held_out.value_or(false));
      }
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stopped_ || read_ - written_ < capacity_; });
      if (stopped_) return;
      if (!bundle.texts.empty()) {
        bundle.number = read_++;
        waiting_.push_back(std::move(bundle));
      }
      finished_ = !more;
      lock.unlock();
      changed_.notify_all();
    }
  }

  void tokenize() {
    Encoder encoder(tokenizer_);
    for (;;) {
      Bundle bundle;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return stopped_ || finished_ || !waiting_.empty(); });
        if (stopped_ || waiting_.empty()) return;
        bundle = std::move(waiting_.front());
        waiting_.pop_front();
      }
      bundle.tokens.resize(bundle.texts.size());
      for (std::size_t i = 0; i < bundle.texts.size(); ++i) encoder.encode(bundle.texts[i], bundle.tokens[i]);
      bundle.texts.clear();
      {
        const std::lock_guard lock(mutex_);
        const std::int64_t number = bundle.number;
        done_.emplace(number, std::move(bundle));
      }
      changed_.notify_all();
    }
  }

  DocumentSource& source_;
  const Tokenizer& tokenizer_;
  const std::int64_t capacity_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Bundle> waiting_;
  std::map<std::int64_t, Bundle> done_;
  std::int64_t read_ = 0;     // bundles read
  std::int64_t written_ = 0;  // bundles delivered
  bool finished_ = false;     // the source is exhausted
  bool stopped_ = false;
  std::exception_ptr failure_;
  std::vector<std::thread> threads_;
};

SplitCounts counts_of(const ShardWriter& writer) {
  return {writer.documents(), writer.tokens(), writer.shards()};
}

}  // namespace

BuildCounts build_shards(DocumentSource& source, const Tokenizer& tokenizer, const BuildOptions& options) {
  if (!(options.held_out >= 0 && options.held_out < 1))
    throw UsageError(
        fmt::format("the held-out fraction must be at least 0 and less than 1, it is {}", options.held_out));
  if (options.threads < 0) throw UsageError(fmt::format("{} threads cannot tokenize", options.threads));
  const auto start = std::chrono::steady_clock::now();
  const ShardFolder folder(options.output, options.replace);
  for (const char* split : {"train", "validation"}) remove_unfinished_shards(options.output, split);

  ShardInfo info;
  info.tokenizer_hash = tokenizer.hash();
  info.vocabulary = tokenizer.vocabulary();
  info.special = tokenizer.special();
  info.split = "train";
  ShardWriter train(options.output, info, options.tokens_per_shard);
  info.split = "validation";
  ShardWriter validation(options.output, info, options.tokens_per_shard);

  BuildProgress progress;
  {
    WithHeldOut divided(source, options.held_out);
    Pipeline pipeline(divided, tokenizer, options.threads > 0 ? options.threads : own_cpus());
    Bundle bundle;
    while (pipeline.next(bundle)) {
      for (std::size_t i = 0; i < bundle.tokens.size(); ++i)
        (bundle.held_out[i] ? validation : train).add(bundle.tokens[i]);
      progress.documents += static_cast<std::int64_t>(bundle.tokens.size());
      progress.bytes += bundle.bytes;
      progress.tokens = train.tokens() + validation.tokens();
      if (options.progress) options.progress(progress);
    }
  }
  COMERA_CHECK(progress.documents > 0, "the corpus is empty: {}", nothing_was_kept(source.counts()));
  COMERA_CHECK(
      train.documents() > 0,
      "no document is left for training: all {} that were kept are held out; lower --held-out, or add inputs",
      validation.documents());
  train.seal();
  validation.seal();
  // From here on nothing can fail for lack of space. The old training part is removed first and the new one
  // is added last, so that a kill in between leaves no readable training part.
  remove_shards(options.output, "train");
  remove_shards(options.output, "validation");
  validation.publish();
  train.publish();
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  return {source.counts(), counts_of(train), counts_of(validation), elapsed.count()};
}

}  // namespace comera::data
