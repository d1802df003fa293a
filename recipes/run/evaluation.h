#pragma once

#include <functional>
#include <optional>

#include "data/baselines.h"
#include "data/loader.h"
#include "recipes/run/step_engine.h"

namespace comera {

// What a model scores on held-out data, beside what it should beat on the very same targets.
struct Evaluation {
  double loss = 0;      // nats per target
  double accuracy = 0;  // share of targets whose id has the largest logit
  std::int64_t targets = 0;
  data::Baselines baselines;
};

// One pass over the held-out set, or over `most_packs` packs of it (0: all). The masks are the same in every
// evaluation with the same sequence length. Nothing if `stop` asks for an end on the way.
std::optional<Evaluation> evaluate(StepEngine& engine, const data::ShardSet& held_out,
                                   data::LoaderOptions options, const data::UnigramModel& unigram,
                                   std::int64_t most_packs, const std::function<bool()>& stop);

}  // namespace comera
