#include "training/vectors/vector_scores.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "data/tasks/task_columns.h"
#include "data/vectors/contrastive_samples.h"
#include "data/vectors/similarity.h"
#include "kernels/core/tensors/finite.h"
#include "training/inference/gathered_values.h"
#include "training/logging/progress.h"
#include "training/tasks/sequence_task.h"

namespace comera {

namespace {

constexpr std::int64_t texts = 2;  // query and document, or the two that are compared

std::span<const float> row_of(const std::vector<float>& rows, std::int64_t i, std::int64_t width) {
  return std::span(rows).subspan(static_cast<std::size_t>(i * width), static_cast<std::size_t>(width));
}

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
    cosines.push_back(data::dot(row_of(first, i, width), row_of(second, i, width)));
    scores.push_back(set.examples.score(i));
  }
  return data::similarity_scores(cosines, scores);
}

data::TaskScores likeness(const std::vector<TaughtPair>& pairs, std::vector<float> rows, std::int64_t width) {
  data::scale_to_unit_length(rows, width);
  std::vector<double> cosines;
  std::vector<float> scores;
  for (const TaughtPair& pair : pairs) {
    cosines.push_back(data::dot(row_of(rows, pair.first, width), row_of(rows, pair.second, width)));
    scores.push_back(pair.cosine);
  }
  return data::similarity_scores(cosines, scores);
}

data::TaskScores scores_of(const VectorSet& set, const std::vector<double>& vectors, std::int64_t width,
                           std::int64_t length, double temperature) {
  if (!set.taught.empty()) return likeness(set.taught, {vectors.begin(), vectors.end()}, width);
  const std::vector<float> first = unit_rows(vectors, width, 0), second = unit_rows(vectors, width, 1);
  return set.retrieval ? retrieval(set, first, second, width, length, temperature)
                       : similarity(set, first, second, width);
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

std::vector<VectorSet> read_texts(const data::Task& task, const data::Tokenizer& tokenizer,
                                  std::int64_t length) {
  std::vector<VectorSet> sets;
  for (const data::Task::Set& set : task.validation)
    sets.push_back({.name = set.name,
                    .file = set.file,
                    .examples = data::Examples::read(task, {set}, tokenizer, !task.label.empty(), length),
                    .texts = std::ssize(task.text),
                    .held_out = set.part == data::TaskPart::held_out});
  return sets;
}

std::vector<TaughtPair> pairs_by(std::vector<float> vectors, const std::vector<std::int32_t>& identities) {
  constexpr std::int64_t around = 1000;
  const std::int64_t count = std::ssize(identities),
                     width = std::ssize(vectors) / std::max<std::int64_t>(count, 1);
  data::scale_to_unit_length(vectors, width);
  std::vector<TaughtPair> pairs;
  for (std::int64_t first = 0; first < count; first += around) {
    const std::int64_t end = std::min(count, first + around);
    for (std::int64_t i = first; i < end; ++i) {
      if (identities[i] < 0) continue;
      std::optional<TaughtPair> nearest;
      const auto pair_with = [&](std::int64_t other) {
        return TaughtPair{
            i, other,
            static_cast<float>(data::dot(row_of(vectors, i, width), row_of(vectors, other, width)))};
      };
      for (std::int64_t other = first; other < end; ++other) {
        if (identities[i] == identities[other] || identities[other] < 0) continue;  // as is a text itself
        const TaughtPair pair = pair_with(other);
        if (!nearest || pair.cosine > nearest->cosine) nearest = pair;
      }
      if (!nearest) continue;
      pairs.push_back(*nearest);
      const std::int64_t next = i + 1 < end ? i + 1 : first;
      if (next != nearest->second && identities[next] >= 0 && identities[i] != identities[next])
        pairs.push_back(pair_with(next));
    }
  }
  return pairs;
}

void ask_teacher(VectorSet& set, const data::Examples& learned, const AskedTeacher& asked,
                 std::int64_t length) {
  const Ticker ticker("the teacher's vectors of held-out texts");
  const Teacher& teacher = asked.teacher;
  InferenceEngine engine(teacher.model(), output_of(teacher.pooling()), asked.processor);
  const MicroBatchCapacity capacity = data::capacity_for(std::max<std::int64_t>(4096, 2 * length), length, 0,
                                                         teacher.model().config().vocabulary);
  const auto vectors = gathered_values(
      engine, std::make_unique<data::SeparateTexts>(set.examples, set.texts, length), capacity,
      set.examples.count() * set.texts * engine.width(), keep_row, asked.stop, asked.processes);
  if (!vectors)
    throw UsageError(
        "stopped before the teacher had answered the held-out texts; nothing was trained, start again");
  if (!all_finite(*vectors))
    throw Error(fmt::format("the teacher's vectors of texts of {} are not finite; check the teacher",
                            set.file.string()));
  std::vector<std::int32_t> identities = data::text_identities(set.examples, set.texts, length);
  if (set.held_out) {
    const std::vector<storage::Hash128> known = data::text_hashes(learned, set.texts, length),
                                        held_out = data::text_hashes(set.examples, set.texts, length);
    const std::set<storage::Hash128> seen(known.begin(), known.end());
    for (std::size_t i = 0; i < held_out.size(); ++i)
      if (seen.contains(held_out[i])) identities[i] = -1;
  }
  set.taught = pairs_by({vectors->begin(), vectors->end()}, identities);
  if (set.taught.empty())
    throw Error(
        set.held_out
            ? fmt::format("{}: the held-out rows have no two new texts to compare with the teacher; raise "
                          "task.held_out, or set it to 0 to train without evaluation",
                          set.file.string())
            : fmt::format("{}: has no two different texts to compare with the teacher; evaluate on "
                          "another file",
                          set.file.string()));
}

std::optional<data::TaskScores> score_vectors(InferenceEngine& engine, const VectorSet& set,
                                              MicroBatchCapacity capacity, double temperature,
                                              const std::function<bool()>& stop, Communicator& communicator) {
  capacity.scores = 1;  // sequences without answers
  // Of all texts, one after the other, from example 0 on.
  const auto vectors = gathered_values(
      engine, std::make_unique<data::SeparateTexts>(set.examples, set.texts, capacity.longest), capacity,
      set.examples.count() * set.texts * engine.width(), keep_row, stop, communicator);
  if (!vectors) return std::nullopt;
  data::TaskScores scores;
  if (!all_finite(*vectors)) {
    scores = data::unknown_scores(data::TaskKind::contrastive, set.examples.count());
    scores.documents = set.retrieval ? set.examples.count() : 0;
  } else {
    scores = scores_of(set, *vectors, engine.width(), capacity.longest, temperature);
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
