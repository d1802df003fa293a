#include "recipes/run/evaluation.h"

namespace comera {

namespace {
constexpr std::int64_t evaluation_seed = 20251;  // of masks: whatever the run's seed, phase and step
}

std::optional<Evaluation> evaluate(StepEngine& engine, const data::ShardSet& held_out,
                                   data::LoaderOptions options, const data::UnigramModel& unigram,
                                   std::int64_t most_packs, const std::function<bool()>& stop) {
  options.seed = evaluation_seed;
  options.one_pass = true;
  options.permuted = most_packs > 0;  // the first packs are then a fair sample
  options.packs_per_step = 1;
  data::Loader loader(held_out, options);
  Evaluation evaluation;
  engine.clear_results();
  for (std::int64_t pack = 0; most_packs == 0 || pack < most_packs; ++pack) {
    const data::Batch* batch = loader.try_next();
    if (batch == nullptr) break;
    if (stop && stop()) return std::nullopt;
    engine.load(*batch);
    engine.evaluate();
    data::add_to_baselines(unigram, *batch, evaluation.baselines);
  }
  const StepResults& results = engine.results();
  evaluation.targets = static_cast<std::int64_t>(results.target_count);
  COMERA_CHECK(evaluation.targets > 0,
               "the held-out set has no targets to evaluate; give more held-out data");
  evaluation.loss = results.loss_sum / results.target_count;
  evaluation.accuracy = results.correct / results.target_count;
  engine.clear_results();
  return evaluation;
}

}  // namespace comera
