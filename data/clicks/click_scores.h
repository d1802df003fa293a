#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace comera::data {

// The quality of predicted click probabilities on one set of examples. Undefined scores are NaN: all but
// `examples` and `click_rate` if a logit is not finite; AUC and normalised entropy if all labels are the
// same.
struct ClickScores {
  std::string set;
  std::int64_t examples = 0;
  double click_rate = 0;  // mean label
  double loss = 0;        // mean log loss in nats
  double accuracy = 0;    // when a click is predicted for probabilities above ½
  double auc = 0;         // probability that a clicked example has the larger logit; a tie counts half
  double normalised_entropy = 0;  // loss relative to always predicting the click rate: below 1 is better
};

// logits: one per example. labels: 0 or 1.
ClickScores click_scores(std::span<const double> logits, std::span<const float> labels);

// One line: "validation: AUC 0.7912, log loss 0.4567 (0.8731 of guessing the click rate), accuracy 78.12 %,
// clicks 25.60 %, 2000 examples".
std::string describe(const ClickScores& scores);

// For one example: −log of the probability that the logit assigns to the label. Exact for large logits.
double log_loss(double logit, bool clicked);
// 1 / (1 + exp(−logit)).
double click_probability(double logit);
// Expected log loss of predicting the true probability, given as this logit; 0 at ±∞.
double click_entropy(double logit);

}  // namespace comera::data
