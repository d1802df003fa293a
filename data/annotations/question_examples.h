#pragma once

#include "data/annotations/annotated_examples.h"
#include "data/annotations/located_pieces.h"
#include "data/annotations/squad_reader.h"

namespace comera::data {

// Questions whose answers are spans of a text (data/annotations/squad_reader.h): [CLS] question [SEP] text
// [SEP], with types 0 and 1. A text that does not fit is read in windows, which share task.overlap tokens.
// The targets of a window are the first and the last token of the answer, or [CLS] for both if the answer is
// not whole in it (Devlin et al., 2019).
//
// Values of a token: its logits as the first and as the last of an answer. The answer is the span of the text
// with the largest sum of both over all windows, of at most most_answer_tokens. Where questions may have no
// answer (task.unanswerable), the score of none is the least sum of [CLS] of any window, and there is none if
// it is above that of the span by more than task.no_answer_threshold.
class QuestionExamples final : public AnnotatedExamples {
 public:
  static constexpr std::int64_t most_answer_tokens = 30;

  QuestionExamples(const Task& task, const std::vector<Task::Set>& sets, const Tokenizer& tokenizer,
                   bool answers, std::int64_t length);

  std::int64_t count() const override { return std::ssize(questions_); }
  std::int64_t sequences() const override { return std::ssize(windows_); }
  std::int64_t length(std::int64_t sequence) const override;
  void read(std::int64_t sequence, bool asked, Sample& to) const override;
  std::int64_t first_position(std::int64_t sequence) const override {
    return sequence < sequences() ? windows_[sequence].first_position : positions_;
  }
  std::int64_t values_each() const override { return 2; }
  void keep(std::int64_t position, std::span<const double> logits, double* to) const override;
  TaskScores scores(std::span<const double> values) const override;
  std::string predictions(std::span<const double> values, AnnotationFormat format) const override;
  std::string fingerprint() const override;

 private:
  struct Context {
    std::string text;
    std::vector<LocatedPiece> pieces;
  };
  struct Question {
    SquadQuestion asked;
    std::size_t context = 0;
    std::vector<std::int32_t> ids;
    std::int64_t first_window = 0;
  };
  struct Window {
    std::size_t question = 0;
    std::int64_t first = 0, count = 0;  // pieces of the context
    std::int64_t first_position = 0;
  };
  struct Reading;
  void read_file(const Task::Set& set, Reading& reading);
  void add(SquadQuestion question, std::size_t context, Reading& reading);
  // The tokens of a window before its part of the context.
  std::int64_t prefix(const Window& window) const;
  // The positions of an answer in a window.
  std::pair<std::int32_t, std::int32_t> targets(const Window& window) const;
  std::int64_t end_of_windows(std::size_t question) const;
  // Bytes [begin, end) of the context.
  struct Span {
    std::int64_t begin = 0, end = 0;
    double score = 0;
  };
  Span best_span(std::size_t question, std::span<const double> values) const;
  // The score of no answer.
  double no_answer(std::size_t question, std::span<const double> values) const;
  std::string text_of(std::size_t question, const Span& span) const;

  std::int64_t length_, overlap_, separators_;
  bool answered_, unanswerable_;
  double threshold_;  // infinite unless questions may have no answer
  std::vector<Context> contexts_;
  std::vector<Question> questions_;
  std::vector<Window> windows_;
  std::int64_t positions_ = 0;
};

}  // namespace comera::data
