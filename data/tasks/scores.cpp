#include "data/tasks/scores.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/core/grouped.h"

namespace comera::data {

namespace {

double correlation(std::span<const double> a, std::span<const double> b) {
  const auto n = static_cast<double>(a.size());
  const double mean_a = std::accumulate(a.begin(), a.end(), 0.0) / n;
  const double mean_b = std::accumulate(b.begin(), b.end(), 0.0) / n;
  double ab = 0, aa = 0, bb = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    ab += (a[i] - mean_a) * (b[i] - mean_b);
    aa += (a[i] - mean_a) * (a[i] - mean_a);
    bb += (b[i] - mean_b) * (b[i] - mean_b);
  }
  return aa > 0 && bb > 0 ? ab / std::sqrt(aa * bb) : 0;
}

std::vector<double> ranks(std::span<const double> values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return values[i]; });
  std::vector<double> ranks(values.size());
  for (std::size_t begin = 0; begin < order.size();) {
    std::size_t end = begin + 1;
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    for (std::size_t i = begin; i < end; ++i) ranks[order[i]] = static_cast<double>(begin + end - 1) / 2;
    begin = end;
  }
  return ranks;
}

}  // namespace

TaskScores classification_scores(std::span<const double> logits, std::span<const std::int32_t> labels,
                                 std::int64_t classes) {
  TaskScores scores;
  scores.examples = static_cast<std::int64_t>(labels.size());
  COMERA_CHECK(scores.examples > 0, "there are no examples to score");
  // confusion[truth * classes + prediction]
  std::vector<double> confusion(classes * classes), truth(classes), predicted(classes);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const auto row = logits.subspan(i * classes, classes);
    const auto best = std::ranges::max_element(row);
    double sum = 0;
    for (const double logit : row) sum += std::exp(logit - *best);
    scores.loss += *best + std::log(sum) - row[labels[i]];
    const auto prediction = best - row.begin();
    confusion[labels[i] * classes + prediction] += 1;
    truth[labels[i]] += 1;
    predicted[prediction] += 1;
  }
  const auto n = static_cast<double>(scores.examples);
  // As scikit-learn, only classes that occur or are predicted count for the mean.
  double occurring = 0;
  for (std::int64_t c = 0; c < classes; ++c) occurring += truth[c] + predicted[c] > 0 ? 1 : 0;
  double correct = 0, f1 = 0, cross = 0, truth_squares = 0, predicted_squares = 0;
  for (std::int64_t c = 0; c < classes; ++c) {
    const double hits = confusion[c * classes + c], all = truth[c] + predicted[c];
    correct += hits;
    const double of_class = all > 0 ? 2 * hits / all : 0;
    f1 += classes == 2 ? (c == 1 ? of_class : 0) : of_class / occurring;
    cross += truth[c] * predicted[c];
    truth_squares += truth[c] * truth[c];
    predicted_squares += predicted[c] * predicted[c];
  }
  scores.loss /= n;
  scores.accuracy = correct / n;
  scores.standard_error = std::sqrt(scores.accuracy * (1 - scores.accuracy) / n);
  scores.majority = *std::ranges::max_element(truth) / n;
  scores.f1 = f1;
  const double spread = (n * n - predicted_squares) * (n * n - truth_squares);
  scores.matthews = spread > 0 ? (correct * n - cross) / std::sqrt(spread) : 0;
  return scores;
}

TaskScores regression_scores(std::span<const double> predictions, std::span<const float> scores) {
  TaskScores result;
  result.kind = TaskKind::regression;
  result.examples = static_cast<std::int64_t>(scores.size());
  COMERA_CHECK(result.examples > 0, "there are no examples to score");
  const std::vector<double> wanted(scores.begin(), scores.end());
  for (std::size_t i = 0; i < wanted.size(); ++i)
    result.loss += (predictions[i] - wanted[i]) * (predictions[i] - wanted[i]);
  const double mean = std::accumulate(wanted.begin(), wanted.end(), 0.0) / static_cast<double>(wanted.size());
  for (const double score : wanted) result.variance += (score - mean) * (score - mean);
  result.loss /= static_cast<double>(result.examples);
  result.variance /= static_cast<double>(result.examples);
  result.pearson = correlation(predictions, wanted);
  result.spearman = correlation(ranks(predictions), ranks(wanted));
  return result;
}

TaskScores multi_label_scores(std::span<const double> logits, std::span<const float> targets,
                              std::int64_t labels) {
  TaskScores scores;
  scores.kind = TaskKind::multi_label;
  scores.examples = std::ssize(targets) / labels;
  COMERA_CHECK(scores.examples > 0, "there are no examples to score");
  struct Counts {
    double hits = 0, all = 0;  // all: targets and predictions
    double f1() const { return all > 0 ? 2 * hits / all : 0; }
  };
  std::vector<Counts> of_label(static_cast<std::size_t>(labels));
  Counts together;
  std::int64_t exact = 0;
  for (std::int64_t i = 0; i < scores.examples; ++i) {
    bool same = true;
    for (std::int64_t l = 0; l < labels; ++l) {
      const double z = logits[i * labels + l];
      const bool wanted = targets[i * labels + l] > 0.5F, predicted = z > 0;
      scores.loss += std::max(z, 0.0) - (wanted ? z : 0) + std::log1p(std::exp(-std::abs(z)));
      for (Counts* counts : {&of_label[static_cast<std::size_t>(l)], &together}) {
        counts->hits += wanted && predicted ? 1 : 0;
        counts->all += (wanted ? 1 : 0) + (predicted ? 1 : 0);
      }
      same = same && wanted == predicted;
    }
    exact += same ? 1 : 0;
  }
  const auto n = static_cast<double>(scores.examples);
  scores.loss /= n * static_cast<double>(labels);
  scores.accuracy = static_cast<double>(exact) / n;
  scores.standard_error = std::sqrt(scores.accuracy * (1 - scores.accuracy) / n);
  scores.micro_f1 = together.f1();
  for (const Counts& counts : of_label) scores.macro_f1 += counts.f1() / static_cast<double>(labels);
  return scores;
}

TaskScores unknown_scores(TaskKind kind, std::int64_t examples) {
  constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
  return {.set = {},
          .kind = kind,
          .examples = examples,
          .loss = unknown,
          .accuracy = unknown,
          .standard_error = unknown,
          .majority = unknown,
          .f1 = unknown,
          .f1_of = {},
          .matthews = unknown,
          .micro_f1 = unknown,
          .macro_f1 = unknown,
          .exact_match = unknown,
          .variance = unknown,
          .pearson = unknown,
          .spearman = unknown,
          .mrr = unknown,
          .recall_at_1 = unknown,
          .recall_at_10 = unknown};
}

double TaskScores::value(TaskMetric metric) const {
  switch (metric) {
    case TaskMetric::accuracy:
      return accuracy;
    case TaskMetric::f1:
      return f1;
    case TaskMetric::matthews:
      return matthews;
    case TaskMetric::pearson:
      return pearson;
    case TaskMetric::spearman:
      return spearman;
    case TaskMetric::micro_f1:
      return micro_f1;
    case TaskMetric::macro_f1:
      return macro_f1;
    case TaskMetric::mrr:
      return mrr;
    case TaskMetric::recall_at_1:
      return recall_at_1;
    case TaskMetric::recall_at_10:
      return recall_at_10;
    case TaskMetric::exact_match:
      return exact_match;
  }
  return 0;
}

namespace {

std::string describe_words(const TaskScores& scores) {
  std::string text = scores.set + ":";
  if (const auto& all = scores.entities) {
    std::vector<std::string> types;
    for (const EntityTypeScores& type : scores.types)
      types.push_back(fmt::format("{} {:.2f} %", type.type, 100 * type.f1));
    text +=
        fmt::format(" F1 {:.2f} %, precision {:.2f} %, recall {:.2f} % of {} entities ({}),", 100 * all->f1,
                    100 * all->precision, 100 * all->recall, grouped(all->entities), fmt::join(types, ", "));
  }
  return text + fmt::format(" accuracy {:.2f} % of {} words (majority {:.2f} %), loss {:.4f}, {} sentences",
                            100 * scores.accuracy, grouped(scores.words), 100 * scores.majority, scores.loss,
                            grouped(scores.examples));
}

std::string describe_answers(const TaskScores& scores) {
  std::string apart;
  if (const auto& of = scores.unanswerable) {
    const std::int64_t answerable = scores.examples - of->questions;
    if (answerable > 0)
      apart = fmt::format("{} with an answer: {:.2f} and {:.2f} %; ", grouped(answerable),
                          100 * of->exact_match, 100 * of->f1);
    if (of->questions > 0)
      apart += fmt::format("{} without: {:.2f} %; ", grouped(of->questions), 100 * of->recognised);
    apart = fmt::format(" ({}best F1 {:.2f} %, with threshold {:.4f})", apart, 100 * of->best_f1,
                        of->best_threshold);
  }
  return fmt::format("{}: exact match {:.2f} %, F1 {:.2f} %{}, loss {:.4f}, {} questions", scores.set,
                     100 * scores.exact_match, 100 * scores.f1, apart, scores.loss, grouped(scores.examples));
}

}  // namespace

std::string describe(const TaskScores& scores) {
  const std::string examples =
      fmt::format("{} {}", grouped(scores.examples), scores.examples == 1 ? "example" : "examples");
  if (!std::isfinite(scores.loss))
    return fmt::format("{}: the model's outputs are not finite, {}", scores.set, examples);
  if (scores.kind == TaskKind::regression)
    return fmt::format("{}: Pearson {:.4f}, Spearman {:.4f}, squared error {:.4f}, {}", scores.set,
                       scores.pearson, scores.spearman, scores.loss, examples);
  if (scores.kind == TaskKind::token_classification) return describe_words(scores);
  if (scores.kind == TaskKind::question_answering) return describe_answers(scores);
  if (scores.kind == TaskKind::contrastive && scores.documents == 0)
    return fmt::format("{}: Spearman {:.4f}, Pearson {:.4f} of the cosines, {} pairs", scores.set,
                       scores.spearman, scores.pearson, grouped(scores.examples));
  if (scores.kind == TaskKind::contrastive)
    return fmt::format(
        "{}: MRR {:.4f}, recall at 1 {:.2f} %, at 10 {:.2f} %, loss {:.4f}, {} queries among {} documents",
        scores.set, scores.mrr, 100 * scores.recall_at_1, 100 * scores.recall_at_10, scores.loss,
        grouped(scores.examples), grouped(scores.documents));
  if (scores.kind == TaskKind::multi_label)
    return fmt::format("{}: micro F1 {:.2f} %, macro F1 {:.2f} %, exact {:.2f} % ± {:.2f}, loss {:.4f}, {}",
                       scores.set, 100 * scores.micro_f1, 100 * scores.macro_f1, 100 * scores.accuracy,
                       100 * scores.standard_error, scores.loss, examples);
  return fmt::format(
      "{}: accuracy {:.2f} % ± {:.2f} (majority {:.2f} %), loss {:.4f}, F1{} {:.2f} %, Matthews {:.4f}, {}",
      scores.set, 100 * scores.accuracy, 100 * scores.standard_error, 100 * scores.majority, scores.loss,
      scores.f1_of.empty() ? "" : fmt::format(" of '{}'", scores.f1_of), 100 * scores.f1, scores.matthews,
      examples);
}

}  // namespace comera::data
