#pragma once

#include <cstdint>
#include <span>

namespace comera {

// The held-out loss on masked tokens, in nats, of a model of tensor trains with the given parameters, trained
// on the given number of tokens, each seen once, in steps of 2,048 tokens with a learning rate that falls to
// 0 (Kaplan et al., 2020, equation 1.5). bench/fit_law.py fits it to runs on source code
// (docs/guide/pretraining.md); on other text the loss differs, and only the order of sizes can be expected to
// hold.
struct LossLaw {
  double parameter_scale = 0, ratio = 0, token_scale = 0, power = 0;

  double loss(double parameters, double tokens) const;
};

// The best fit.
const LossLaw& fitted_law();
// Fits to bootstrap samples of the same points: a measure of its uncertainty.
std::span<const LossLaw> resampled_laws();
// The root mean square error of the law for runs that it was not fitted to, in nats.
double law_error();
// The range of the fitted runs.
struct LawRange {
  double least_parameters = 0, most_parameters = 0, least_tokens = 0, most_tokens = 0;
  std::int64_t tokens_per_step = 0;
};
const LawRange& fitted_range();

}  // namespace comera
