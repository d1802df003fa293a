#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/tasks/baselines.h"
#include "data/clicks/click_scores.h"
#include "data/tasks/scores.h"

namespace comera {

// Of masked tokens of one source of several.
struct SourceEvaluation {
  std::string name;
  double loss = 0, accuracy = 0;
  std::int64_t targets = 0;
  data::Baselines baselines;
};

// What a model scores on held-out data.
struct Evaluation {
  double score = 0;  // larger is better; what the best model is chosen by

  // Of masked tokens, beside what should be beaten on the very same targets.
  double loss = 0;      // nats per target
  double accuracy = 0;  // share of targets whose id has the largest logit
  std::int64_t targets = 0;
  data::Baselines baselines;  // without targets if the training data are not at hand
  // Of each source, if there are several: the numbers above are then the means by the sources' weights, or,
  // without weights, those of all targets.
  std::vector<SourceEvaluation> sources;

  // Of a task with examples: one entry per set.
  std::vector<data::TaskScores> sets;

  std::optional<data::ClickScores> clicks;  // of a click model
};

}  // namespace comera
