// What vectors find, and how their cosines agree with scores.
#include <gmock/gmock.h>

#include <cmath>

#include "data/vectors/similarity.h"

namespace comera::data {
namespace {

TEST(Vectors, DotProductsAndUnitLength) {
  for (const std::size_t size : {1u, 15u, 16u, 17u, 67u}) {
    std::vector<float> a(size), b(size);
    double wanted = 0;
    for (std::size_t i = 0; i < size; ++i) {
      a[i] = static_cast<float>(i % 7) - 2.5F, b[i] = static_cast<float>(i % 5) + 0.25F;
      wanted += static_cast<double>(a[i]) * b[i];
    }
    EXPECT_NEAR(dot(a, b), wanted, 1e-4) << size;
    std::vector<float> rows = a;
    rows.insert(rows.end(), size, 0.F);
    scale_to_unit_length(rows, static_cast<std::int64_t>(size));
    EXPECT_NEAR(dot(std::span(rows).first(size), std::span(rows).first(size)), 1, 1e-6);
    EXPECT_EQ(rows.back(), 0) << "a row of zeros has no direction";
  }
}

TEST(Retrieval, RanksAreThoseOfTheFirstRightDocument) {
  // Unit vectors by angle: query i has document i.
  const auto row = [](double angle) {
    return std::vector{static_cast<float>(std::cos(angle)), static_cast<float>(std::sin(angle))};
  };
  const auto rows = [&](std::initializer_list<double> angles) {
    std::vector<float> all;
    for (const double angle : angles)
      for (const float value : row(angle)) all.push_back(value);
    return all;
  };
  const std::vector<float> queries = rows({0, 0.45, 1, 0}), documents = rows({0.1, 0.9, 1.2, 1.15});
  const std::vector<std::int32_t> of_queries = {0, 1, 2, 3}, of_documents = {10, 11, 12, 13};
  // The documents that are nearer are none, one, two and two.
  const TaskScores scores = retrieval_scores({queries, documents, of_queries, of_documents, 2}, 0.05);
  EXPECT_EQ(scores.examples, 4);
  EXPECT_EQ(scores.documents, 4);
  EXPECT_NEAR(scores.mrr, (1 + 1.0 / 2 + 1.0 / 3 + 1.0 / 3) / 4, 1e-12);
  EXPECT_EQ(scores.recall_at_1, 0.25);
  EXPECT_EQ(scores.recall_at_10, 1);
  // With equal queries the documents of both are right.
  const std::vector<std::int32_t> same = {0, 1, 2, 0};
  const TaskScores together = retrieval_scores({queries, documents, same, of_documents, 2}, 0.05);
  EXPECT_NEAR(together.mrr, (1 + 1.0 / 2 + 1.0 / 3 + 1) / 4, 1e-12);
  // Equal documents are one.
  const std::vector<std::int32_t> equal = {10, 11, 12, 12};
  EXPECT_EQ(retrieval_scores({queries, documents, of_queries, equal, 2}, 0.05).documents, 3);
}

TEST(Retrieval, VectorsThatAreAllAlikeFindNothing) {
  const std::vector<float> alike(2 * 20, std::sqrt(0.5F));
  std::vector<std::int32_t> of_queries(20), of_documents(20);
  for (int i = 0; i < 20; ++i) of_queries[i] = i, of_documents[i] = 100 + i;
  const TaskScores scores = retrieval_scores({alike, alike, of_queries, of_documents, 2}, 0.05);
  EXPECT_NEAR(scores.mrr, 1.0 / 20, 1e-12);
  EXPECT_EQ(scores.recall_at_10, 0);
  EXPECT_NEAR(scores.loss, std::log(20.0), 1e-6);
}

TEST(Similarity, IsTheCorrelationOfCosinesAndScores) {
  const std::vector<double> cosines = {0.1, 0.5, 0.4, 0.9};
  const std::vector<float> scores = {1, 3, 2, 5};
  const TaskScores found = similarity_scores(cosines, scores);
  EXPECT_EQ(found.kind, TaskKind::contrastive);
  EXPECT_NEAR(found.spearman, 1, 1e-12);
  EXPECT_THAT(describe(found), testing::HasSubstr("Spearman 1.0000"));
}

}  // namespace
}  // namespace comera::data
