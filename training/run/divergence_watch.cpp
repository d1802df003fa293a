#include "training/run/divergence_watch.h"

#include <algorithm>

namespace comera {

double DivergenceWatch::limit() const {
  const double start = std::max(uniform_, first_);
  return start + std::max(1.0, start / 4);
}

std::optional<DivergenceWatch::Finding> DivergenceWatch::add(double loss) {
  if (uniform_ <= 0) return std::nullopt;
  if (takes_first_) first_ = loss;
  takes_first_ = false;
  last_ = loss;
  sum_ += loss;
  return ++steps_ == block_steps ? end_block() : std::nullopt;
}

std::optional<DivergenceWatch::Finding> DivergenceWatch::end_block() {
  constexpr int blocks = 2, most_blocks = 4;
  constexpr double falling = 0.9, absurd = 100;
  const double before = mean_;
  mean_ = sum_ / steps_;
  sum_ = 0;
  steps_ = 0;
  high_ = mean_ > limit() ? high_ + 1 : 0;
  absurd_ = mean_ > absurd * limit() ? absurd_ + 1 : 0;
  if (absurd_ >= blocks) return Finding::absurd;
  const bool stays = high_ >= blocks && mean_ > falling * before;
  if (found_ || (!stays && high_ < most_blocks)) return std::nullopt;
  found_ = true;
  return Finding::high;
}

}  // namespace comera
