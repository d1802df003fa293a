// Training steps of a DLRM with the tables of Criteo Kaggle: milliseconds and memory, for dense tables or
// tensor trains, on one machine.
//
//   comera_bench_clicks WIDTH RANK BATCH [PASSES] [profile
// all-rows]
//
// RANK 0: dense tables, of which a step updates the rows that it looks up or, with `all-rows`, all of them.
// Ids are drawn with a uniform logarithm, which gives frequencies by Zipf's law with exponent 1. Layers are
// those of the published recipe: 13-512-256-64-WIDTH and 512-256-1, dense, AdamW.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <random>
#include <string_view>

#include "data/clicks/click_batch.h"
#include "kernels/backends/processors.h"
#include "kernels/core/console.h"
#include "kernels/core/profile.h"
#include "model/dlrm/click_micro_batches.h"
#include "tensorized/decomposition/factorize.h"
#include "training/step/step_engine.h"

namespace comera {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t heights[] = {1460,  583,  10131227, 2202608, 305, 24,     12517,   633,   3,
                                    93145, 5683, 8351593,  3194,    27,  14992,  5461306, 10,    5652,
                                    2173,  4,    7046547,  18,      15,  286181, 105,     142572};

DlrmConfig criteo(std::int64_t width, std::int64_t rank, bool sparse) {
  DlrmConfig config;
  config.width = width;
  config.sparse_updates = sparse;
  for (const std::int64_t outputs : {std::int64_t{512}, std::int64_t{256}, std::int64_t{64}, width})
    config.bottom.push_back({.outputs = outputs, .train = {}});
  for (const std::int64_t outputs : {512, 256, 1}) config.top.push_back({.outputs = outputs, .train = {}});
  for (const std::int64_t rows : heights)
    config.tables.push_back(
        {.rows = rows, .train = rank == 0 ? std::nullopt : factorize_table(rows, width, 3, rank)});
  return config;
}

data::Clicks draw(const DlrmConfig& config, const std::vector<std::int64_t>& right_rows,
                  std::int64_t examples, std::uint32_t seed) {
  std::vector<std::int64_t> rows;
  for (const DlrmConfig::Table& table : config.tables) rows.push_back(table.rows);
  data::Clicks clicks(ClickCapacity::single(examples, config.dense_features, rows), right_rows);
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> uniform;
  std::normal_distribution<float> normal;
  std::vector<float> dense_features(static_cast<std::size_t>(config.dense_features));
  std::vector<std::int32_t> ids(rows.size());
  for (std::int64_t e = 0; e < examples; ++e) {
    for (float& number : dense_features) number = normal(random);
    for (std::size_t t = 0; t < rows.size(); ++t) {
      const double id = std::pow(static_cast<double>(rows[t]) + 1, uniform(random)) - 1;
      ids[t] = std::min(static_cast<std::int32_t>(id), static_cast<std::int32_t>(rows[t] - 1));
    }
    clicks.add(dense_features, ids, random() % 4 == 0 ? 1.F : 0.F);
  }
  clicks.finish();
  return clicks;
}

void measure(std::int64_t width, std::int64_t rank, std::int64_t examples, int passes,
             std::string_view word) {
  const bool profiled = word == "profile";
  const Processor processor = cpu_processor();
  const DlrmConfig config = criteo(width, rank, word != "all-rows");
  Dlrm model(config, processor.allocator, true);
  model.parameters().initialize(1);
  StepEngine engine(model, {}, processor);
  const data::Clicks clicks = draw(config, model.right_rows(), examples, 1);
  engine.set_micro_batches(ClickMicroBatches(model, clicks.arrays().capacity));
  const auto step = [&](int number) {
    engine.clear_results();
    engine.load(clicks.block());
    engine.micro({.seed = 1, .step = static_cast<std::uint32_t>(number), .micro_batch = 0});
    engine.apply(number, static_cast<double>(examples), StepRates(LearningRates::all(1e-3)), 0);
    return engine.results().loss_sum / static_cast<double>(examples);
  };
  step(0);
  std::vector<double> milliseconds;
  double loss = 0;
  for (int pass = 1; pass <= passes; ++pass) {
    std::optional<Profiling> profiling;
    if (profiled && pass == passes) {
      profile_reset();
      profiling.emplace();
    }
    const auto start = Clock::now();
    loss = step(pass);
    milliseconds.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
  }
  std::ranges::sort(milliseconds);
  std::string memory;
  double total = 0;
  for (int kind = 0; kind < memory_kinds; ++kind) {
    const auto peak =
        static_cast<double>(processor.allocator.use(static_cast<MemoryKind>(kind)).peak) / (1 << 20);
    memory += fmt::format("{} {:.1f}, ", name_of(static_cast<MemoryKind>(kind)), peak);
    total += peak;
  }
  print_out(
      "width {}, rank {}, batch {}: {} parameters, {:.1f} ms a step ({:.1f} to {:.1f}); MiB: {}together "
      "{:.1f}; loss "
      "{:.4f}\n",
      width, rank, examples, model.parameters().count(), milliseconds[milliseconds.size() / 2],
      milliseconds.front(), milliseconds.back(), memory, total, loss);
  if (!profiled) return;
  for (const ProfileEntry& entry : profile_entries())
    print_out("{:10.2f} ms {:6d}  {}\n", entry.seconds * 1e3, entry.calls, entry.name);
}

}  // namespace

}  // namespace comera

int main(int count, char** arguments) {
  if (count < 4) {
    comera::log_info("usage: comera_bench_clicks WIDTH RANK BATCH [PASSES] [profile | all-rows]\n");
    return 2;
  }
  comera::measure(std::atoll(arguments[1]), std::atoll(arguments[2]), std::atoll(arguments[3]),
                  count > 4 ? std::atoi(arguments[4]) : 5, count > 5 ? arguments[5] : "");
}
