#include "measurements/loss_law.h"

#include <cmath>

namespace comera {

namespace {

#include "measurements/loss_law.inc"

}  // namespace

double LossLaw::loss(double parameters, double tokens) const {
  return std::pow(std::pow(parameter_scale / parameters, ratio) + token_scale / tokens, power);
}

const LossLaw& fitted_law() { return laws[0]; }
std::span<const LossLaw> resampled_laws() { return std::span(laws).subspan(1); }
double law_error() { return missed_by; }
const LawRange& fitted_range() { return range; }

}  // namespace comera
