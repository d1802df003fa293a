#include "training/vectors/vector_scores.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "data/tasks/task_columns.h"
#include "data/vectors/contrastive_samples.h"
#include "data/vectors/similarity.h"
#include "kernels/core/tensors/finite.h"
#include "training/inference/gathered_values.h"
#include "training/tasks/sequence_task.h"

namespace comera {

namespace {

constexpr std::int64_t texts = 2;  // query and document, or the two that are compared

// Every second row, from the first or the second one, in float32 and of length 1.
std::vector<float> unit_rows(const std::vector<double>& vectors, std::int64_t width, std::int64_t first) {
  std::vector<float> rows;
  rows.reserve(vectors.size() / texts);
  for (auto row = vectors.begin() + first * width; row < vectors.end(); row += texts * width)
    std::transform(row, row + width, std::back_inserter(rows),
                   [](double value) { return static_cast<float>(value); });
  data::scale_to_unit_length(rows, width);
  return rows;
}

data::TaskScores retrieval(const VectorSet& set, const std::vector<float>& queries,
                           const std::vector<float>& documents, std::int64_t width, std::int64_t length,
                           double temperature) {
  const std::vector<std::int32_t> identities = data::text_identities(set.examples, texts, length);
  std::vector<std::int32_t> of_queries, of_documents;
  for (std::size_t i = 0; i < identities.size(); i += texts) {
    of_queries.push_back(identities[i]);
    of_documents.push_back(identities[i + 1]);
  }
  return data::retrieval_scores({.queries = queries,
                                 .documents = documents,
                                 .query_identities = of_queries,
                                 .document_identities = of_documents,
                                 .width = width},
                                temperature);
}

data::TaskScores similarity(const VectorSet& set, const std::vector<float>& first,
                            const std::vector<float>& second, std::int64_t width) {
  std::vector<double> cosines;
  std::vector<float> scores;
  for (std::int64_t i = 0; i < set.examples.count(); ++i) {
    const auto row = [&](const std::vector<float>& rows) {
      return std::span(rows).subspan(static_cast<std::size_t>(i * width), static_cast<std::size_t>(width));
    };
    cosines.push_back(data::dot(row(first), row(second)));
    scores.push_back(set.examples.score(i));
  }
  return data::similarity_scores(cosines, scores);
}

}  // namespace

std::vector<VectorSet> read_pairs(const data::Task& task, const data::Tokenizer& tokenizer,
                                  std::int64_t length) {
  if (task.validation.empty()) return {};
  if (task.text.size() < texts)
    throw UsageError(
        fmt::format("task.text has one column, '{}', and a text finds itself: evaluate on task.similarity, "
                    "tables of two texts and a score, instead of task.validation or task.held_out",
                    fmt::join(task.text, ", ")));
  data::Task pairs = task;
  pairs.text.resize(texts);
  std::vector<VectorSet> sets;
  for (const data::Task::Set& set : task.validation)
    sets.push_back({set.name, set.file, true,
                    data::Examples::read(pairs, {set}, tokenizer, !pairs.label.empty(), length)});
  return sets;
}

std::vector<VectorSet> read_similarity(const std::vector<std::string>& files,
                                       const data::Tokenizer& tokenizer, std::int64_t length) {
  std::vector<VectorSet> sets;
  for (const data::Task::Set& set : named_sets(files)) {
    const data::TaskColumns columns = data::find_task_columns(set.file, data::TableFormat::automatic, true,
                                                              {.kind = data::TaskKind::regression});
    if (columns.text.size() != texts)
      throw UsageError(fmt::format("{}: similarity is that of two texts, and it has only '{}'",
                                   set.file.string(), fmt::join(columns.text, ", ")));
    const data::Task task{
        .name = set.name, .kind = data::TaskKind::regression, .text = columns.text, .label = columns.label};
    sets.push_back({set.name, set.file, false, data::Examples::read(task, {set}, tokenizer, true, length)});
  }
  return sets;
}

std::optional<data::TaskScores> score_vectors(InferenceEngine& engine, const VectorSet& set,
                                              MicroBatchCapacity capacity, double temperature,
                                              const std::function<bool()>& stop, Communicator& communicator) {
  capacity.scores = 1;  // sequences without answers
  // Of all texts, one after the other, from example 0 on.
  const auto vectors =
      gathered_values(engine, std::make_unique<data::SeparateTexts>(set.examples, texts, capacity.longest),
                      capacity, set.examples.count() * texts * engine.width(), keep_row, stop, communicator);
  if (!vectors) return std::nullopt;
  data::TaskScores scores;
  if (!all_finite(*vectors)) {
    scores = data::unknown_scores(data::TaskKind::contrastive, set.examples.count());
    scores.documents = set.retrieval ? set.examples.count() : 0;
  } else {
    const std::int64_t width = engine.width();
    const std::vector<float> first = unit_rows(*vectors, width, 0), second = unit_rows(*vectors, width, 1);
    scores = set.retrieval ? retrieval(set, first, second, width, capacity.longest, temperature)
                           : similarity(set, first, second, width);
  }
  scores.set = set.name;
  return scores;
}

double chosen_score(const std::vector<data::TaskScores>& sets, data::TaskMetric metric) {
  for (const data::TaskScores& scores : sets)
    if ((metric == data::TaskMetric::spearman) == (scores.documents == 0)) return scores.value(metric);
  return 0;
}

}  // namespace comera
