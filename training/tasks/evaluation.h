#pragma once

#include <any>
#include <cstdint>

namespace comera {

// How a model scores on held-out data: what all tasks have, and details that the task's own describe() and
// metrics() read.
struct Evaluation {
  double score = 0;     // larger is better; the best model is chosen by it
  double loss = 0;      // per target, nats; of a regression, the mean squared error
  double accuracy = 0;  // share of targets for which the largest logit is right
  std::int64_t targets = 0;
  std::any details;  // of the task's own type

  template <class Details>
  const Details& details_as() const {
    return std::any_cast<const Details&>(details);
  }
};

}  // namespace comera
