#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/baselines.h"
#include "data/clicks/click_scores.h"
#include "data/scores.h"

namespace comera {

// Scores on the masked tokens of one source among several.
struct SourceEvaluation {
  std::string name;
  double loss = 0, accuracy = 0;
  std::int64_t targets = 0;
  data::Baselines baselines;
};

// A model's scores on held-out data.
struct Evaluation {
  double score = 0;  // larger is better; selects the best model

  // For masked tokens, next to the baselines on the same targets.
  double loss = 0;      // nats per target
  double accuracy = 0;  // share of targets whose id has the largest logit
  std::int64_t targets = 0;
  data::Baselines baselines;  // without targets if the training data are unavailable
  // For each source, if there are several. The values above are then means weighted by the sources' weights
  // or, without weights, over all targets.
  std::vector<SourceEvaluation> sources;

  // For a task with examples: one entry per set.
  std::vector<data::TaskScores> sets;

  std::optional<data::ClickScores> clicks;  // for a click model
};

}  // namespace comera
