#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/tasks/task.h"

namespace comera::data {

// The named entities of a type, or of all types.
struct EntityTypeScores {
  std::string type;
  double precision = 0, recall = 0, f1 = 0;
  std::int64_t entities = 0;  // that should be found
};

// Of questions some of which have no answer in their text.
struct UnanswerableScores {
  std::int64_t questions = 0;              // without an answer
  double exact_match = 0, f1 = 0;          // of those that have one
  double recognised = 0;                   // share of those without one that get none
  double best_f1 = 0, best_threshold = 0;  // over thresholds for no answer
};

// The quality of predictions on one set of examples. Scores of another kind of task are 0.
struct TaskScores {
  std::string set;
  TaskKind kind = TaskKind::classification;
  std::int64_t examples = 0;
  double loss = 0;  // mean cross-entropy in nats (of several labels: of each), or mean squared error

  double accuracy = 0;        // of several labels: the share of examples with exactly the right ones
  double standard_error = 0;  // of the accuracy: √(a (1 − a) / examples)
  double majority = 0;        // share of the most frequent class: the accuracy of always predicting it
  double f1 = 0;              // for class 1 of two classes, else the mean over those that occur
  std::string f1_of = {};     // the name of that class 1, if it is known
  double matthews = 0;        // correlation coefficient; R_K (Gorodkin, 2004) for more than two classes

  double micro_f1 = 0;  // of all decisions about several labels
  double macro_f1 = 0;  // the mean over these labels

  // Of labels of words, whose accuracy is that of words, and whose f1 is that of entities.
  std::int64_t words = 0;
  std::optional<EntityTypeScores> entities = {};  // if the labels are those of entities
  std::vector<EntityTypeScores> types = {};

  double exact_match = 0;                               // of answers in a text, whose f1 is that of words
  std::optional<UnanswerableScores> unanswerable = {};  // if questions may have no answer

  double variance = 0;  // of the scores: the loss of always giving their mean
  double pearson = 0;
  double spearman = 0;  // ranks of equal values are averaged

  // Of a contrastive task: each query's document is looked for among `documents`; without any, the set is
  // pairs with a score, and its correlations are those of the cosines.
  std::int64_t documents = 0;
  double mrr = 0;           // mean of 1 / rank
  double recall_at_1 = 0;   // share of queries whose document comes first
  double recall_at_10 = 0;  // or among the first ten

  double value(TaskMetric metric) const;
};

// logits: examples x classes. labels: one per example.
TaskScores classification_scores(std::span<const double> logits, std::span<const std::int32_t> labels,
                                 std::int64_t classes);
// Several labels, each of which is predicted where its logit is above 0 (probability 0.5). As scikit-learn's
// f1_score with zero_division=0: a label that neither is nor is predicted has an F1 of 0. logits, targets:
// examples x labels; targets are 0 or 1.
TaskScores multi_label_scores(std::span<const double> logits, std::span<const float> targets,
                              std::int64_t labels);
// 0 for a correlation of constant values.
TaskScores regression_scores(std::span<const double> predictions, std::span<const float> scores);

// For non-finite outputs: every score is NaN.
TaskScores unknown_scores(TaskKind kind, std::int64_t examples);

// One line: "dev_matched: accuracy 61.23 % ± 0.49 (majority 35.45 %), loss 0.8721, F1 60.10 %, 9815
// examples".
std::string describe(const TaskScores& scores);

}  // namespace comera::data
