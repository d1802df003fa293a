#pragma once

#include <cstdint>
#include <span>

#include "data/tasks/scores.h"

namespace comera::data {

// The dot product of two vectors of one width, in float32.
float dot(std::span<const float> a, std::span<const float> b);

// Scales each row of `width` numbers to length 1; rows of zeros stay.
void scale_to_unit_length(std::span<float> rows, std::int64_t width);

// Unit vectors of queries and of their documents, a row of `width` numbers each; equal texts have one number.
struct RetrievalTexts {
  std::span<const float> queries, documents;
  std::span<const std::int32_t> query_identities, document_identities;
  std::int64_t width = 0;
};

// Looks for each query's document among all different documents, by the cosine. Documents of equal queries
// are all right, and the best of them counts. Others of the same cosine come before it, so that vectors that
// are all alike find nothing. The loss is the cross-entropy of cosine / temperature over these documents, in
// nats.
TaskScores retrieval_scores(const RetrievalTexts& texts, double temperature);

// The correlations of cosines with scores; for a set without documents.
TaskScores similarity_scores(std::span<const double> cosines, std::span<const float> scores);

}  // namespace comera::data
