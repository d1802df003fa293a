#include "data/clicks/click_scores.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/core/check.h"

namespace comera::data {

namespace {

constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

// From the ranks of the clicks (Mann and Whitney); equal logits share the mean of their ranks.
double area_under_curve(std::span<const double> logits, std::span<const float> labels, double clicks) {
  std::vector<std::size_t> order(logits.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return logits[i]; });
  double ranks = 0;  // of clicks, from 1
  for (std::size_t begin = 0; begin < order.size();) {
    std::size_t end = begin;
    double tied_clicks = 0;
    for (; end < order.size() && logits[order[end]] == logits[order[begin]]; ++end)
      tied_clicks += labels[order[end]];
    ranks += tied_clicks * static_cast<double>(begin + end + 1) / 2;
    begin = end;
  }
  const double others = static_cast<double>(logits.size()) - clicks;
  return (ranks - clicks * (clicks + 1) / 2) / (clicks * others);
}

}  // namespace

// exp() does not overflow and log() does not get 0: log(1 + exp(−|z|)) is the remaining loss for large z.
double log_loss(double logit, bool clicked) {
  return std::max(clicked ? -logit : logit, 0.0) + std::log1p(std::exp(-std::abs(logit)));
}

double click_probability(double logit) {
  const double small = std::exp(-std::abs(logit));
  return (logit >= 0 ? 1 : small) / (1 + small);
}

// With p the smaller probability, −p log p − (1 − p) log(1 − p) = p |z| + log(1 + exp(−|z|)).
double click_entropy(double logit) {
  const double distance = std::abs(logit), small = std::exp(-distance);
  return (small > 0 ? small / (1 + small) * distance : 0) + std::log1p(small);
}

ClickScores click_scores(std::span<const double> logits, std::span<const float> labels) {
  COMERA_CHECK(logits.size() == labels.size(), "{} logits cannot be scored against {} labels", logits.size(),
               labels.size());
  COMERA_CHECK(!labels.empty(), "there are no examples to score");
  ClickScores scores;
  scores.examples = static_cast<std::int64_t>(labels.size());
  const auto n = static_cast<double>(labels.size());
  double clicks = 0, loss = 0, correct = 0;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    COMERA_CHECK(labels[i] == 0 || labels[i] == 1, "example {} has label {}; labels are 0 or 1", i,
                 labels[i]);
    const bool clicked = labels[i] == 1;
    clicks += labels[i];
    loss += log_loss(logits[i], clicked);
    correct += (logits[i] > 0) == clicked ? 1 : 0;
  }
  scores.click_rate = clicks / n;
  scores.loss = scores.accuracy = scores.auc = scores.normalised_entropy = unknown;
  if (!std::ranges::all_of(logits, [](double logit) { return std::isfinite(logit); })) return scores;
  scores.loss = loss / n;
  scores.accuracy = correct / n;
  if (clicks == 0 || clicks == n) return scores;
  scores.auc = area_under_curve(logits, labels, clicks);
  const double rate = scores.click_rate;
  scores.normalised_entropy = scores.loss / (-rate * std::log(rate) - (1 - rate) * std::log1p(-rate));
  return scores;
}

std::string describe(const ClickScores& scores) {
  const std::string set = scores.set.empty() ? "" : scores.set + ": ";
  if (!std::isfinite(scores.loss))
    return fmt::format("{}the model's outputs are not finite, {} examples", set, scores.examples);
  if (std::isnan(scores.auc))
    return fmt::format(
        "{}all labels are {}, so there is no AUC, log loss {:.4f}, accuracy {:.2f} %, {} examples", set,
        scores.click_rate, scores.loss, 100 * scores.accuracy, scores.examples);
  return fmt::format(
      "{}AUC {:.4f}, log loss {:.4f} ({:.4f} of guessing the click rate), accuracy {:.2f} %, clicks {:.2f} "
      "%, "
      "{} examples",
      set, scores.auc, scores.loss, scores.normalised_entropy, 100 * scores.accuracy, 100 * scores.click_rate,
      scores.examples);
}

}  // namespace comera::data
