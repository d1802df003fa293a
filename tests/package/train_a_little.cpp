// Trains the model of a recipe on one batch with the installed libraries; the loss must fall.
#include <cstdio>

#include "data/batching/batch.h"
#include "kernels/backends/backends.h"
#include "kernels/backends/processors.h"
#include "model/encoder_micro_batches.h"
#include "recipes/encoder_config.h"
#include "recipes/recipe.h"
#include "training/step/step_engine.h"

int main(int argc, char** argv) {
  using namespace comera;
  if (argc != 2) return std::puts("usage: train_a_little RECIPE"), 2;
  const Recipe recipe = load_recipe(argv[1], {"model.layers=2", "model.dropout=0.0"});
  const MicroBatchCapacity capacity{
      .tokens = 128, .sequences = 4, .longest = 32, .masked = 16, .unique_ids = 128};
  prepare_threads(0);
  const Processor processor = cpu_processor();
  Model model(encoder_config(recipe, 1000), processor.allocator, true);
  model.parameters().initialize(1);
  StepEngine engine(model, {}, processor);
  engine.set_micro_batches(EncoderMicroBatches(model, capacity));

  data::Batch batch(capacity);
  const std::vector<std::int32_t> types(32, 0);
  for (std::int32_t sequence = 0; sequence < 4; ++sequence) {
    std::vector<std::int32_t> ids;
    for (std::int32_t i = 0; i < 32; ++i) ids.push_back(5 + (37 * i + 11 * sequence) % 900);
    batch.add_sequence(ids.data(), types.data(), 32, {3, 9, 20, 31}, {ids[3], ids[9], ids[20], ids[31]});
  }
  data::finish_batch(batch, model.token_embedding().right_rows());

  const StepRates rates(LearningRates::all(1e-3));
  double first = 0, last = 0;
  for (std::uint32_t step = 0; step < 20; ++step) {
    engine.clear_results();
    engine.load(batch.block());
    engine.micro({.seed = 1, .step = step});
    engine.apply(step, batch.masked, rates, 1.0);
    last = engine.results().loss_sum / engine.results().target_count;
    if (step == 0) first = last;
  }
  std::printf("loss %.4f after one step, %.4f after twenty\n", first, last);
  return last < first ? 0 : 1;
}
