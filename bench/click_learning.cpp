// What a DLRM with dense tables or tensor trains learns of clicks that a known model draws, beside the least
// that any could reach. One line of JSON for each evaluation.
//
//   comera_bench_click_learning ROWS RANK STEPS SEED [RATE] [DEVIATION]
//
// ROWS: what the planted tables are: full_rank, low_rank or tensor_train. RANK 0: dense tables. Steps are of
// 2,048 examples, none of which is seen twice; 40,960 others are held out.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <string>
#include <string_view>

#include "data/clicks/click_batch.h"
#include "data/clicks/click_scores.h"
#include "data/clicks/synthetic_clicks.h"
#include "kernels/backends/processors.h"
#include "kernels/core/console.h"
#include "model/dlrm/click_packs.h"
#include "tensorized/factorize.h"
#include "training/step_engine.h"

namespace comera {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t batch = 2048, held_out = 20 * batch;
constexpr std::int64_t first_held_out = std::int64_t{1} << 40;  // far behind those that are trained on

struct Run {
  std::string rows;
  std::int64_t rank = 0;
  int steps = 0;
  std::uint64_t seed = 1;
  double rate = 1e-3, deviation = 0.05;
};

data::SyntheticClicksOptions planted(const Run& run) {
  data::SyntheticClicksOptions options;
  options.seed = 11;
  options.heights = {1000000, 200000, 50000, 10000, 1000, 100, 20, 3};
  options.rows = run.rows == "low_rank"       ? data::PlantedRows::low_rank
                 : run.rows == "tensor_train" ? data::PlantedRows::tensor_train
                                              : data::PlantedRows::full_rank;
  if (run.rows != "tensor_train") return options;
  options.column_modes = {2, 4, 2};
  for (const std::int64_t rows : options.heights) {
    std::int64_t mode = 1;
    while (mode * mode * mode < rows) ++mode;
    options.row_modes.push_back({mode, mode, mode});
  }
  return options;
}

DlrmConfig config_of(const Run& run, const data::SyntheticClicksOptions& options) {
  DlrmConfig config;
  config.numbers = options.numbers, config.width = 16, config.embedding_deviation = run.deviation;
  config.bottom = {{.outputs = 64, .train = {}}, {.outputs = 16, .train = {}}};
  config.top = {{.outputs = 128, .train = {}}, {.outputs = 64, .train = {}}, {.outputs = 1, .train = {}}};
  for (const std::int64_t rows : options.heights)
    config.tables.push_back(
        {.rows = rows,
         .train = run.rank == 0 ? std::nullopt : factorize_table(rows, config.width, 3, run.rank)});
  return config;
}

class Learning {
 public:
  explicit Learning(const Run& run)
      : run_(run),
        options_(planted(run)),
        clicks_(options_),
        config_(config_of(run, options_)),
        processor_(cpu_processor()),
        model_(config_, processor_.allocator, true),
        engine_(model_, {}, processor_),
        host_(ClickCapacity::single(batch, options_.numbers, options_.heights), model_.right_rows()) {
    model_.parameters().initialize(run.seed);
    engine_.set_packs(ClickPacks(model_, host_.arrays().capacity));
  }

  void go() {
    for (int step = 0; step < run_.steps; ++step) {
      // Seeds have examples of their own.
      fill((static_cast<std::int64_t>(run_.seed) << 32) + step * batch);
      const auto start = Clock::now();
      engine_.clear_results();
      engine_.load(host_.block());
      engine_.micro({.seed = run_.seed, .step = static_cast<std::uint32_t>(step), .pack = 0});
      const double rate = run_.rate * (1 - static_cast<double>(step) / run_.steps);
      engine_.apply(step, static_cast<double>(batch), {rate, rate, rate, rate}, 0);
      engine_.results();
      seconds_ += std::chrono::duration<double>(Clock::now() - start).count();
      if ((step + 1) % std::max(run_.steps / 10, 1) == 0) evaluate(step + 1);
    }
  }

 private:
  void fill(std::int64_t first) {
    clicks_.make(first, batch, examples_);
    host_.clear();
    const auto tables = std::ssize(options_.heights);
    for (std::int64_t e = 0; e < batch; ++e)
      host_.add(std::span(examples_.numbers).subspan(e * options_.numbers, options_.numbers),
                std::span(examples_.ids).subspan(e * tables, tables), examples_.labels[e]);
    host_.finish();
  }

  void evaluate(int step) {
    double entropy = 0, clicked = 0;
    engine_.clear_results();
    for (std::int64_t first = 0; first < held_out; first += batch) {
      fill(first_held_out + first);
      engine_.load(host_.block());
      engine_.evaluate();
      entropy += clicks_.entropy(examples_) * static_cast<double>(batch);
      for (const float label : examples_.labels) clicked += label;
    }
    const StepResults& results = engine_.results();
    const double share = clicked / held_out, loss = results.loss_sum / results.target_count;
    const double constant = -share * std::log(share) - (1 - share) * std::log(1 - share);
    put("{{\"rows\":\"{}\",\"rank\":{},\"seed\":{},\"rate\":{},\"deviation\":{},\"step\":{},\"parameters\":{}"
        ",\"seconds\":{:.2f},"
        "\"loss\":{:.6f},\"normalised_entropy\":{:.6f},\"floor\":{:.6f},\"accuracy\":{:.5f}}}\n",
        run_.rows, run_.rank, run_.seed, run_.rate, run_.deviation, step, model_.parameters().count(),
        seconds_, loss, loss / constant, entropy / held_out / constant,
        results.correct / results.target_count);
  }

  Run run_;
  data::SyntheticClicksOptions options_;
  data::SyntheticClicks clicks_;
  DlrmConfig config_;
  Processor processor_;
  Dlrm model_;
  StepEngine engine_;
  data::Clicks host_;
  data::ClickExamples examples_;
  double seconds_ = 0;
};

}  // namespace

}  // namespace comera

int main(int count, char** arguments) {
  if (count < 5) {
    comera::say("usage: comera_bench_click_learning ROWS RANK STEPS SEED [RATE] [DEVIATION]\n");
    return 2;
  }
  comera::Run run{.rows = arguments[1],
                  .rank = std::atoll(arguments[2]),
                  .steps = std::atoi(arguments[3]),
                  .seed = std::strtoull(arguments[4], nullptr, 10)};
  if (count > 5) run.rate = std::atof(arguments[5]);
  if (count > 6) run.deviation = std::atof(arguments[6]);
  comera::Learning(run).go();
}
