#include "measurements/lookup_benchmark.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <random>

#include "data/clicks/click_batch.h"
#include "data/clicks/synthetic_clicks.h"
#include "kernels/backends/processors.h"
#include "kernels/core/check.h"
#include "kernels/ops/elementwise/gather.h"
#include "measurements/stepper.h"
#include "reports/number_text.h"
#include "reports/text/text_table.h"
#include "tensorized/embedding/embedding.h"

namespace comera {

namespace {

std::vector<std::int32_t> ids_of(const LookupBenchmarkOptions& options, std::int64_t tokens) {
  if (!options.text.empty()) {
    COMERA_CHECK(std::ssize(options.text) >= tokens, "the text has {} tokens, {} are asked for",
                 options.text.size(), tokens);
    return {options.text.begin(), options.text.begin() + tokens};
  }
  const data::ZipfLaw law(options.rows, options.exponent);
  std::mt19937_64 random(1);
  std::vector<std::int32_t> ids;
  for (std::int64_t i = 0; i < tokens; ++i)
    ids.push_back(
        static_cast<std::int32_t>(law.draw([&] { return static_cast<double>(random() >> 11) * 0x1p-53; })));
  return ids;
}

// One table, and a batch of ids for it.
class Lookup {
 public:
  Lookup(const LookupBenchmarkOptions& options, const std::optional<LookupKind>& kind,
         const std::vector<std::int32_t>& ids)
      : processor_(find_processor(options.device, DType::float32)),
        table_(make_embedding(store_, "table", options.rows, options.width, 0.02,
                              kind ? std::optional(options.shape) : std::nullopt,
                              kind.value_or(LookupKind::unique))) {
    store_.allocate(processor_.allocator, DType::float32, true);
    store_.initialize(1);
    const auto tokens = std::ssize(ids);
    data::Clicks clicks(ClickCapacity::single(tokens, 0, {options.rows}), {table_->right_rows()});
    for (const std::int32_t id : ids) {
      COMERA_CHECK(id < options.rows,
                   "the text has the id {}, the table only {} rows; take a shard of its tokenizer", id,
                   options.rows);
      clicks.add({}, std::span(&id, 1), 0);
    }
    clicks.finish();
    batch_ = ClickBatch(processor_.allocator, clicks.arrays().capacity);
    distinct_ = *clicks.arrays().tables[0].ids.unique_count.data<std::int32_t>();
    processor_.allocator.upload(batch_.block(), clicks.block().data(), clicks.block().size(), stream());
    rows_memory_ =
        Buffer(processor_.allocator, static_cast<std::size_t>(tokens * options.width) * sizeof(float),
               MemoryKind::workspace);
    rows_ = rows_memory_.tensor({tokens, options.width}, DType::float32);
    forward_plan_ = plan_of([&](const Context& context) { forward(context); });
    plan_ = plan_of([&](const Context& context) { backward(context); });
    arena_.emplace(processor_.allocator, Arena::Plan{.saved = 0,
                                                     .scratch = std::max(forward_plan_, plan_),
                                                     .total = std::max(forward_plan_, plan_)});
  }

  double time_forward() {
    return time([&](const Context& context) { forward(context); });
  }
  double time_backward() {
    return time([&](const Context& context) { backward(context); });
  }
  std::int64_t distinct() const { return distinct_; }
  std::int64_t parameters() const { return store_.count(); }
  std::size_t forward_bytes() const { return forward_plan_; }
  std::size_t bytes() const { return std::max(forward_plan_, plan_); }

 private:
  using Pass = std::function<void(const Context&)>;

  Stream stream() const { return processor_.allocator.stream(); }
  void forward(const Context& context) const {
    ArenaScope scope(context.arena);
    const LookupIds& ids = batch_.tables[0].ids;
    const Embedding::Rows found = table_->look_up(context, scope, ids);
    run(context, GatherRows{.x = found.rows, .indices = found.index, .count = ids.count, .y = rows_});
  }
  void backward(const Context& context) const { table_->backward(context, batch_.tables[0].ids, rows_); }

  std::size_t plan_of(const Pass& pass) const {
    Arena arena = Arena::measuring(processor_.allocator.device());
    pass(Context{processor_.backend, arena, stream()});
    return arena.peak().total;
  }
  double time(const Pass& pass) {
    const Context context{processor_.backend, *arena_, stream()};
    processor_.allocator.synchronize(stream());
    const auto start = std::chrono::steady_clock::now();
    pass(context);
    processor_.allocator.synchronize(stream());
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  }

  Processor processor_;
  ParameterStore store_;
  std::unique_ptr<Embedding> table_;
  ClickBatch batch_;
  Buffer rows_memory_;
  Tensor rows_;
  std::int64_t distinct_ = 0;
  std::size_t forward_plan_ = 0, plan_ = 0;
  std::optional<Arena> arena_;
};

struct Way {
  const char* name;
  std::optional<LookupKind> kind;
};
constexpr Way ways[] = {{"dense", std::nullopt},
                        {"naive", LookupKind::naive},
                        {"unique", LookupKind::unique},
                        {"factors", LookupKind::factors}};

}  // namespace

std::vector<LookupResult> benchmark_lookup(const LookupBenchmarkOptions& options) {
  std::vector<LookupResult> results;
  for (const std::int64_t tokens : options.tokens) {
    const std::vector<std::int32_t> ids = ids_of(options, tokens);
    for (const Way& way : ways) {
      Lookup lookup(options, way.kind, ids);
      lookup.time_forward(), lookup.time_backward();  // the first calls touch new memory
      std::vector<double> forward, backward;
      for (int i = 0; i < options.repeats; ++i)
        forward.push_back(lookup.time_forward()), backward.push_back(lookup.time_backward());
      results.push_back({.tokens = tokens,
                         .distinct = lookup.distinct(),
                         .way = way.name,
                         .forward_ms = median(forward),
                         .backward_ms = median(backward),
                         .parameters = lookup.parameters(),
                         .forward_bytes = lookup.forward_bytes(),
                         .bytes = lookup.bytes()});
    }
  }
  return results;
}

std::string lookup_text(const LookupBenchmarkOptions& options, const std::vector<LookupResult>& results) {
  TextTable table({"tokens", "distinct", "way", "forward ms", "backward ms", "together", "naive is slower",
                   "MiB beside", "numbers"});
  table.align_right(3);
  double naive = 0;
  for (const LookupResult& result : results) {
    for (const LookupResult& other : results)
      if (other.tokens == result.tokens && other.way == "naive") naive = other.forward_ms + other.backward_ms;
    const double together = result.forward_ms + result.backward_ms;
    table.add({grouped(result.tokens), grouped(result.distinct), result.way,
               fmt::format("{:.2f}", result.forward_ms), fmt::format("{:.2f}", result.backward_ms),
               fmt::format("{:.2f}", together), fmt::format("{:.1f} times", naive / together),
               fmt::format("{:.1f}", static_cast<double>(result.bytes) / (1 << 20)),
               grouped(result.parameters)});
  }
  return fmt::format("{} rows of {}: {}; float32, medians of {}\n{}", grouped(options.rows),
                     grouped(options.width), options.shape.text(), options.repeats, table.text());
}

}  // namespace comera
