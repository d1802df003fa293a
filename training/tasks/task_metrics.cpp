#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "data/annotations/annotated_examples.h"
#include "training/tasks/sequence_task.h"

namespace comera {

namespace {

Json metrics_of_annotations(const data::TaskScores& scores, Json object) {
  if (scores.kind == data::TaskKind::question_answering) {
    object["exact_match"] = scores.exact_match;
    object["f1"] = scores.f1;
    if (const auto& of = scores.unanswerable) {
      object["unanswerable"] = of->questions;
      if (of->questions > 0) object["recognised"] = of->recognised;
      if (of->questions < scores.examples) {
        object["answerable_exact_match"] = of->exact_match;
        object["answerable_f1"] = of->f1;
      }
      object["best_f1"] = of->best_f1;
      object["best_threshold"] = of->best_threshold;
    }
    return object;
  }
  object["words"] = scores.words;
  object["accuracy"] = scores.accuracy;
  object["majority"] = scores.majority;
  const auto values = [](const data::EntityTypeScores& of) {
    return Json{{"precision", of.precision}, {"recall", of.recall}, {"f1", of.f1}, {"entities", of.entities}};
  };
  if (!scores.entities) return object;
  object.update(values(*scores.entities));
  for (const data::EntityTypeScores& type : scores.types) object["types"][type.type] = values(type);
  return object;
}

}  // namespace

Json metrics_of(const data::TaskScores& scores) {
  Json object = {{"examples", scores.examples}};
  set_if_finite(object, "loss", scores.loss);
  if (scores.kind == data::TaskKind::regression) {
    set_if_finite(object, "pearson", scores.pearson);
    set_if_finite(object, "spearman", scores.spearman);
    return object;
  }
  if (scores.kind == data::TaskKind::contrastive) {
    if (scores.documents == 0) {
      object.erase("loss");
      set_if_finite(object, "pearson", scores.pearson);
      set_if_finite(object, "spearman", scores.spearman);
      return object;
    }
    object["documents"] = scores.documents;
    set_if_finite(object, "mrr", scores.mrr);
    set_if_finite(object, "recall_at_1", scores.recall_at_1);
    set_if_finite(object, "recall_at_10", scores.recall_at_10);
    return object;
  }
  if (data::is_annotation(scores.kind)) return metrics_of_annotations(scores, std::move(object));
  object["accuracy"] = scores.accuracy;
  object["standard_error"] = scores.standard_error;
  if (scores.kind == data::TaskKind::multi_label) {
    object["micro_f1"] = scores.micro_f1;
    object["macro_f1"] = scores.macro_f1;
    return object;
  }
  object["majority"] = scores.majority;
  object["f1"] = scores.f1;
  object["matthews"] = scores.matthews;
  return object;
}

const std::vector<data::TaskScores>& sets_of(const Evaluation& evaluation) {
  return evaluation.details_as<std::vector<data::TaskScores>>();
}

std::string describe_sets(const Evaluation& evaluation) {
  std::vector<std::string> lines;
  for (const data::TaskScores& scores : sets_of(evaluation)) lines.push_back(data::describe(scores));
  return fmt::format("{}", fmt::join(lines, "\n  "));
}

Json metrics_of_sets(const Evaluation& evaluation) {
  Json metrics;
  for (const data::TaskScores& scores : sets_of(evaluation))
    metrics["validation"][scores.set] = metrics_of(scores);
  set_if_finite(metrics, "score", evaluation.score);
  return metrics;
}

}  // namespace comera
