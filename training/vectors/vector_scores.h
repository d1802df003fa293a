#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "data/tables/examples.h"
#include "data/tasks/scores.h"
#include "distributed/communicator.h"
#include "recipes/recipe.h"
#include "training/inference/inference_engine.h"

namespace comera {

// What an encoder's vectors are scored on, in memory.
struct VectorSet {
  std::string name;
  std::filesystem::path file;
  bool retrieval = false;  // pairs of query and document; otherwise pairs of texts with a score
  data::Examples examples;
};

// The validation files of a contrastive task, or held-out rows: pairs of texts that belong together.
// UsageError if the task has one text, which would find itself.
std::vector<VectorSet> read_pairs(const data::Task& task, const data::Tokenizer& tokenizer,
                                  std::int64_t length);
// Tables of two texts and a score, whose columns are found (data/tasks/task_columns.h). UsageError for a file
// without them.
std::vector<VectorSet> read_similarity(const std::vector<std::string>& files,
                                       const data::Tokenizer& tokenizer, std::int64_t length);

// Scores the vectors of an engine whose output is `mean` or `first`: retrieval_scores() or
// similarity_scores(), or unknown_scores() if they are not finite. The processes share the work, and each
// gets the result. Nothing if `stop` requests a stop.
std::optional<data::TaskScores> score_vectors(InferenceEngine& engine, const VectorSet& set,
                                              MicroBatchCapacity capacity, double temperature,
                                              const std::function<bool()>& stop = {},
                                              Communicator& communicator = one_process());

// The engine's output for vectors of this pooling.
constexpr InferenceEngine::Output output_of(Pooling pooling) {
  return pooling == Pooling::mean ? InferenceEngine::Output::mean : InferenceEngine::Output::first;
}

// The score that the metric means: that of the first set that has it. 0 without one.
double chosen_score(const std::vector<data::TaskScores>& sets, data::TaskMetric metric);

}  // namespace comera
