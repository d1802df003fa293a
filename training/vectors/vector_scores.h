#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "data/tables/examples.h"
#include "data/tasks/scores.h"
#include "distributed/communicator.h"
#include "model/teacher.h"
#include "recipes/recipe.h"
#include "training/inference/inference_engine.h"

namespace comera {

// Two texts, by their places among those of a set one after the other, and the cosine of a teacher's vectors.
struct TaughtPair {
  std::int64_t first = 0, second = 0;
  float cosine = 0;
};

// What an encoder's vectors are scored on, in memory.
struct VectorSet {
  std::string name;
  std::filesystem::path file;
  bool retrieval = false;  // pairs of query and document; otherwise pairs of texts with a score
  data::Examples examples;
  std::vector<TaughtPair> taught = {};  // instead of the examples' pairs, if there are any
  std::int64_t texts = 2;               // of an example
  bool held_out = false;                // rows of the training files
};

// The validation files of a contrastive task, or held-out rows: pairs of texts that belong together.
// UsageError if the task has one text, which would find itself.
std::vector<VectorSet> read_pairs(const data::Task& task, const data::Tokenizer& tokenizer,
                                  std::int64_t length);
// Tables of two texts and a score, whose columns are found (data/tasks/task_columns.h). UsageError for a file
// without them.
std::vector<VectorSet> read_similarity(const std::vector<std::string>& files,
                                       const data::Tokenizer& tokenizer, std::int64_t length);

// The files of a task as single texts that a student and its teacher read. They have no pairs yet.
std::vector<VectorSet> read_texts(const data::Task& task, const data::Tokenizer& tokenizer,
                                  std::int64_t length);
// Pairs of texts, each with the one that is nearest to it by its vector among those around it, and with the
// next one. identities: equal texts have one number; a text with a negative one is in no pair. vectors: of
// all texts, of any length.
std::vector<TaughtPair> pairs_by(std::vector<float> vectors, const std::vector<std::int32_t>& identities);

// Who is asked about held-out texts.
struct AskedTeacher {
  const Teacher& teacher;
  const Processor& processor;
  const std::function<bool()>& stop;
  Communicator& processes;
};
// Fills in a set's pairs by the vectors of a teacher, in all processes together. Held-out texts that
// `learned` has too are left out: a row of two columns is new if both together are. UsageError if `stop`
// requests a stop.
void ask_teacher(VectorSet& set, const data::Examples& learned, const AskedTeacher& asked,
                 std::int64_t length);

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
