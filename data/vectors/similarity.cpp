#include "data/vectors/similarity.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "kernels/core/check.h"

namespace comera::data {

float dot(std::span<const float> a, std::span<const float> b) {
  constexpr std::size_t lanes = 16;  // independent sums, which compilers turn into vector instructions
  std::array<float, lanes> sums{};
  const std::size_t whole = a.size() / lanes * lanes;
  for (std::size_t i = 0; i < whole; i += lanes)
    for (std::size_t lane = 0; lane < lanes; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  float sum = 0;
  for (std::size_t i = whole; i < a.size(); ++i) sum += a[i] * b[i];
  return std::accumulate(sums.begin(), sums.end(), sum);
}

void scale_to_unit_length(std::span<float> rows, std::int64_t width) {
  for (std::size_t begin = 0; begin < rows.size(); begin += static_cast<std::size_t>(width)) {
    const auto row = rows.subspan(begin, static_cast<std::size_t>(width));
    double squares = 0;
    for (const float value : row) squares += static_cast<double>(value) * value;
    if (squares == 0) continue;
    const double factor = 1 / std::sqrt(squares);
    for (float& value : row) value = static_cast<float>(value * factor);
  }
}

namespace {

std::span<const float> row_of(std::span<const float> rows, std::size_t row, std::int64_t width) {
  return rows.subspan(row * static_cast<std::size_t>(width), static_cast<std::size_t>(width));
}

// The rows of different documents, and which of them are right for a query.
struct Candidates {
  std::vector<std::size_t> rows;
  std::unordered_map<std::int32_t, std::unordered_set<std::size_t>> right;  // by the query's identity

  explicit Candidates(const RetrievalTexts& texts) {
    std::unordered_map<std::int32_t, std::size_t> places;
    for (std::size_t i = 0; i < texts.document_identities.size(); ++i) {
      const auto [place, added] = places.emplace(texts.document_identities[i], rows.size());
      if (added) rows.push_back(i);
      right[texts.query_identities[i]].insert(place->second);
    }
  }
};

}  // namespace

TaskScores retrieval_scores(const RetrievalTexts& texts, double temperature) {
  const Candidates candidates(texts);
  TaskScores scores;
  scores.kind = TaskKind::contrastive;
  scores.examples = std::ssize(texts.query_identities);
  scores.documents = std::ssize(candidates.rows);
  COMERA_CHECK(scores.examples > 0, "there are no queries to score");
  std::vector<double> cosines(candidates.rows.size());
  for (std::size_t query = 0; query < texts.query_identities.size(); ++query) {
    const auto& right = candidates.right.at(texts.query_identities[query]);
    for (std::size_t i = 0; i < cosines.size(); ++i)
      cosines[i] = dot(row_of(texts.queries, query, texts.width),
                       row_of(texts.documents, candidates.rows[i], texts.width));
    double best = -2;
    for (const std::size_t i : right) best = std::max(best, cosines[i]);
    std::int64_t rank = 1;
    double shares = 0;  // relative to that of the best right document
    for (std::size_t i = 0; i < cosines.size(); ++i) {
      rank += cosines[i] >= best && !right.contains(i) ? 1 : 0;
      shares += std::exp((cosines[i] - best) / temperature);
    }
    scores.mrr += 1 / static_cast<double>(rank);
    scores.recall_at_1 += rank <= 1 ? 1 : 0;
    scores.recall_at_10 += rank <= 10 ? 1 : 0;
    scores.loss += std::log(shares);
  }
  const auto n = static_cast<double>(scores.examples);
  for (double* const sum : {&scores.mrr, &scores.recall_at_1, &scores.recall_at_10, &scores.loss}) *sum /= n;
  scores.accuracy = scores.recall_at_1;
  return scores;
}

TaskScores similarity_scores(std::span<const double> cosines, std::span<const float> scores) {
  TaskScores result = regression_scores(cosines, scores);
  result.kind = TaskKind::contrastive;
  result.loss = 0;  // cosines and scores have different scales
  return result;
}

}  // namespace comera::data
