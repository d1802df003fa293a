#pragma once

#include <cstdint>
#include <span>

namespace comera {

// Held-out loss of masked tokens, nats, of a model of tensor trains with so many parameters that was trained
// on so many tokens, each seen once, in steps of 2,048 tokens whose learning rate falls to 0 (Kaplan et al.,
// 2020, equation 1.5). bench/fit_law.py fits it to runs on source code (docs/guide/pretraining.md); on other
// text the loss is another, and only the order of sizes may be expected to be the same.
struct LossLaw {
  double parameter_scale = 0, ratio = 0, token_scale = 0, power = 0;

  double loss(double parameters, double tokens) const;
};

// The law that fits best.
const LossLaw& fitted_law();
// The same of points drawn from those it was fitted to, with repetitions: how sure it is.
std::span<const LossLaw> resampled_laws();
// By how much the law misses a run that it was not fitted to: root mean square, nats.
double law_error();
// What it was fitted to.
struct LawRange {
  double least_parameters = 0, most_parameters = 0, least_tokens = 0, most_tokens = 0;
  std::int64_t tokens_per_step = 0;
};
const LawRange& fitted_range();

}  // namespace comera
