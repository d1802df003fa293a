#pragma once

#include <set>

#include "data/annotations/annotated_examples.h"
#include "data/annotations/conll_reader.h"

namespace comera::data {

// Sentences whose words have labels (data/annotations/conll_reader.h). Each word is divided into pieces by
// itself; the first has the label, the others are in no loss. A sentence that is longer than a sequence is
// divided between words into parts of about equal lengths. Of a word that alone is longer, the first pieces
// are read.
//
// Values of a word: the class with the largest logit, its probability, and the nats of the word's label (0
// without one).
class TokenExamples final : public AnnotatedExamples {
 public:
  TokenExamples(const Task& task, const std::vector<Task::Set>& sets, const Tokenizer& tokenizer, bool labels,
                std::int64_t length);

  std::int64_t count() const override { return std::ssize(sentence_ends_); }
  std::int64_t sequences() const override { return std::ssize(tokens_end_); }
  std::int64_t length(std::int64_t sequence) const override;
  void read(std::int64_t sequence, bool asked, Sample& to) const override;
  std::int64_t first_position(std::int64_t sequence) const override;
  std::int64_t values_each() const override { return 3; }
  void keep(std::int64_t position, std::span<const double> logits, double* to) const override;
  TaskScores scores(std::span<const double> values) const override;
  std::string predictions(std::span<const double> values, AnnotationFormat format) const override;
  std::string fingerprint() const override;

 private:
  struct Reading;
  void read_file(const Task::Set& set, Reading& reading);
  void add(const std::vector<ConllWord>& sentence, Reading& reading);
  std::int32_t label_of(const ConllWord& word, Reading& reading);
  const std::string& predicted(std::span<const double> values, std::int64_t word) const {
    return labels_[static_cast<std::size_t>(values[static_cast<std::size_t>(3 * word)])];
  }
  std::string columns(std::span<const double> values) const;
  std::string lines_of_json(std::span<const double> values) const;

  struct Word {
    std::int32_t position = 0;  // of its first piece in its sequence
    std::int32_t label = 0;     // in labels_
  };
  std::int64_t content_;             // most pieces of a sequence
  std::vector<std::string> labels_;  // the classes, then others that the files have
  std::int64_t classes_ = 0;
  std::vector<std::int32_t> tokens_;
  std::vector<std::int64_t> tokens_end_, words_end_;  // of each sequence
  std::vector<Word> words_;
  std::vector<std::int64_t> sentence_ends_;  // in words_
  // For predictions: of each word; and of each sentence what its file has before it.
  std::vector<ConllWord> texts_;
  std::vector<std::vector<std::string>> document_lines_;
};

// What a file of words holds.
struct TokenFile {
  std::int64_t sentences = 0, words = 0, columns = 0;
  std::set<std::string> labels = {};
};
// Errors: ConllReader's.
TokenFile survey_token_file(const std::filesystem::path& file, const Task& task);

// The labels in the files, sorted. Error if there are fewer than two or more than 1,000.
std::vector<std::string> find_token_labels(const Task& task, const std::vector<Task::Set>& sets);

}  // namespace comera::data
