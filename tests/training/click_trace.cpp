#include "tests/training/click_trace.h"

#include "model/dlrm/click_micro_batches.h"
#include "tests/support/clicks.h"
#include "training/step/step_engine.h"

namespace comera::test {

std::vector<double> click_trace(const DlrmConfig& config, const Processor& processor, int steps,
                                const OptimizerOptions& optimizer) {
  Dlrm model(config, processor.allocator, true);
  model.parameters().initialize(2);
  StepEngine engine(model, optimizer, processor);
  const auto batch = [&](std::uint32_t seed) { return some_clicks(config, model.right_rows(), 19, seed); };
  engine.set_micro_batches(ClickMicroBatches(model, batch(0).arrays().capacity));
  std::vector<double> losses;
  for (int step = 0; step < steps; ++step) {
    engine.clear_results();
    double examples = 0;
    for (std::uint32_t micro_batch = 0; micro_batch < 2; ++micro_batch) {
      // Two steps' examples, again and again: there is something to learn.
      const data::Clicks clicks = batch(2 * (step % 2) + micro_batch + 1);
      engine.load(clicks.block());
      engine.micro({.seed = 9, .step = static_cast<std::uint32_t>(step), .micro_batch = micro_batch},
                   micro_batch == 1);
      examples += clicks.examples();
    }
    engine.apply(step, examples, StepRates({.cores = 2e-2, .gates = 1e-2, .other = 1e-2}), 1.0);
    losses.push_back(engine.results().loss_sum / engine.results().target_count);
  }
  return losses;
}

}  // namespace comera::test
