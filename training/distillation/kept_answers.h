#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "data/shards/samples.h"
#include "data/tokenizers/tokenizer.h"
#include "distributed/communicator.h"
#include "model/config.h"
#include "recipes/recipe.h"
#include "training/run/process_agreement.h"

namespace comera {

class EncoderTask;
struct Processor;

// A teacher's answers to the texts of a task, which a file keeps: a vector of each example, its logits, or
// both, computed once instead of in every pass. In memory, 4 bytes a number.
class KeptAnswers {
 public:
  // Reads a file that find_answers() has made. Error if it is damaged.
  explicit KeptAnswers(const std::filesystem::path& path);

  std::int64_t count() const { return count_; }
  std::int64_t vector_width() const { return vector_width_; }  // 0: no vectors
  std::int64_t logits() const { return width_ - vector_width_; }
  // A vector, then logits, or the score of a regression, not standardised.
  std::span<const float> of(std::int64_t sample) const {
    return std::span(answers_).subspan(sample * width_, width_);
  }
  // As TrainedTeacher::file().
  const GivenFile& teacher() const { return teacher_; }
  // The file itself, for the agreement of processes.
  const GivenFile& file() const { return file_; }
  // What the answers depend on besides the teacher, as text, and distillation.replaced_words.
  const std::string& made_for() const { return made_for_; }
  double replaced_words() const { return replaced_words_; }

 private:
  std::int64_t count_ = 0, vector_width_ = 0, width_ = 0;
  std::vector<float> answers_;
  GivenFile teacher_, file_;
  std::string made_for_;
  double replaced_words_ = 0;
};

// A student's run. The recipe is resolved.
struct StudentOf {
  const Recipe& recipe;
  const data::Tokenizer& tokenizer;
  const EncoderConfig& config;
  const Processor& processor;
  const EncoderTask& task;
};

// The answers in the file of distillation.cache. Where it is missing, the processes load the teacher, share
// the texts, and process 0 says the size of the file and writes it. UsageError if the file is of another
// teacher or other texts. `stop`: as TrainingOptions::stop_requested; if it requests a stop, there is no
// file, and UsageError says so.
std::unique_ptr<const KeptAnswers> find_answers(const StudentOf& student,
                                                const std::function<void(const std::string&)>& log,
                                                const std::function<bool()>& stop, Communicator& processes);

// The same samples with the answer of each, scores as this student learns them. answers must outlive them.
std::unique_ptr<data::SampleSource> with_answers(std::unique_ptr<data::SampleSource> samples,
                                                 const KeptAnswers& answers, const EncoderConfig& student);

}  // namespace comera
