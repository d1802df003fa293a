#pragma once

#include <cstdint>

#include "kernels/shared/dropout.h"

namespace comera {

inline constexpr int max_parameter_groups = 5;  // with a learning rate each

// Values that change from step to step. They live in device memory, never in a kernel's arguments, so that a
// captured graph can be replayed. The host writes them before each graph.
struct StepInputs {
  DropoutKey dropout;
  double learning_rate[max_parameter_groups] = {};
  double bias_correction1 = 1;  // 1 - beta1^step
  double bias_correction2 = 1;  // 1 - beta2^step
  double average_weight = 1;    // of the updated parameters in their average
  double targets = 1;           // in the global batch: gradients are sums over targets and are divided by it
  double max_norm = 0;          // of the gradient after that division; 0: no clipping
  double rank_target = 0;       // s* of `compress`: the size due by now, at least s₀
  double rank_urgency = 1;      // u of `compress` (kernels/shared/ranks.h)
};

// Of tokens that may have been replaced (BinaryCrossEntropy::targets).
struct DetectionResults {
  double loss_sum = 0;  // nats, unweighed
  double weighed = 0;   // what it added to StepResults::loss_sum
  double tokens = 0;
  double correct = 0;   // tokens whose prediction is right
  double replaced = 0;  // tokens that were
  double found = 0;     // of these, predicted as replaced
};

// Per-step outputs; the host clears them before a step's first micro-batch and reads them after apply.
struct StepResults {
  double loss_sum = 0;  // over targets, nats
  double target_count = 0;
  double correct = 0;                 // targets whose class has the largest logit
  double gradient_norm = 0;           // after division by targets, before clipping
  double gradient_scale = 0;          // the optimizer's factor for gradients: clipping and 1 / targets
  std::int64_t nonfinite = 0;         // 1: the gradient is not finite and the optimizer skips the step
  std::int64_t first_nonfinite = -1;  // index of the first tensor that is not finite
  DetectionResults detection;
};

}  // namespace comera
