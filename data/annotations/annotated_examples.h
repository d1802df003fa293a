#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/shards/samples.h"
#include "data/tasks/scores.h"
#include "data/tasks/task.h"
#include "data/tokenizers/tokenizer.h"

namespace comera::data {

// Whether a task's answers lie within a text: labels of words, or spans. Others are about whole texts
// (data/tables/examples.h).
constexpr bool is_annotation(TaskKind kind) {
  return kind == TaskKind::token_classification || kind == TaskKind::question_answering;
}

// How predictions are written.
enum class AnnotationFormat : std::uint8_t { columns, lines_of_json, json };

// Examples whose answers lie within a text, in memory. A text is one sequence, or several if it is longer
// than a model reads: none of it is left out.
//
// A model's outputs for them are numbers for each position that it is asked about: positions() of them, those
// of one sequence after another, with values_each() numbers.
class AnnotatedExamples {
 public:
  virtual ~AnnotatedExamples() = default;

  virtual std::int64_t count() const = 0;  // sentences, or questions
  virtual std::int64_t sequences() const = 0;
  virtual std::int64_t length(std::int64_t sequence) const = 0;
  // Its ids, and as targets those of the loss, or, `asked`, the positions that outputs are needed for.
  virtual void read(std::int64_t sequence, bool asked, Sample& to) const = 0;
  // The number of the first position that a sequence is asked about, among all; of sequences(): their number.
  virtual std::int64_t first_position(std::int64_t sequence) const = 0;
  std::int64_t positions() const { return first_position(sequences()); }

  virtual std::int64_t values_each() const = 0;
  // What is kept of a position's logits, values_each() numbers.
  virtual void keep(std::int64_t position, std::span<const double> logits, double* to) const = 0;
  // Of values (positions() values_each()), which are finite; with labels.
  virtual TaskScores scores(std::span<const double> values) const = 0;
  // The text of a file.
  virtual std::string predictions(std::span<const double> values, AnnotationFormat format) const = 0;

  // Readable lines: what was read, and what needed special treatment.
  const std::vector<std::string>& reports() const { return reports_; }
  // 32 hexadecimal digits of the contents, in order.
  virtual std::string fingerprint() const = 0;

  std::int32_t vocabulary() const { return vocabulary_; }
  const SpecialIds& special() const { return special_; }

 protected:
  explicit AnnotatedExamples(const Tokenizer& tokenizer)
      : vocabulary_(tokenizer.vocabulary()), special_(tokenizer.special()) {}

  std::int32_t vocabulary_;
  SpecialIds special_;
  std::vector<std::string> reports_;
};

// Reads the files of a set, or their part of the examples. Error in one sentence for what is malformed, with
// the line, and if nothing is left.
//   labels: the answers are read, and must be there. Without, what predictions() needs is kept.
//   length: most tokens of a sequence.
std::unique_ptr<AnnotatedExamples> read_annotated(const Task& task, const std::vector<Task::Set>& sets,
                                                  const Tokenizer& tokenizer, bool labels,
                                                  std::int64_t length);

// Whether a text belongs to the part of a file; equal texts belong to the same.
bool is_in_part(const Task& task, TaskPart part, std::string_view text);

// The sequences of examples, for a loader.
class AnnotatedSamples final : public SampleSource {
 public:
  // examples must outlive this.
  AnnotatedSamples(const AnnotatedExamples& examples, std::int64_t types, bool asked)
      : examples_(examples), types_(types), asked_(asked) {}

  std::int32_t vocabulary() const override { return examples_.vocabulary(); }
  const SpecialIds& special() const override { return examples_.special(); }
  std::int64_t count() const override { return examples_.sequences(); }
  std::int64_t length(std::int64_t sample) const override { return examples_.length(sample); }
  std::vector<std::int32_t> lengths() const override;
  bool masked() const override { return true; }
  void read(std::int64_t sample, Sample& to) override;

 private:
  const AnnotatedExamples& examples_;
  std::int64_t types_;
  bool asked_;
};

}  // namespace comera::data
