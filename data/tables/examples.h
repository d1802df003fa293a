#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/shards/samples.h"
#include "data/tasks/task.h"
#include "data/tokenizers/tokenizer.h"
#include "storage/hash.h"

namespace comera::data {

// Columns that examples keep as they are, beside what a model reads.
struct KeptColumns {
  std::vector<std::string> names = {};
  bool required = true;  // false: those that the file has
};
struct KeptField {
  std::string text;
  FieldKind kind = FieldKind::absent;
};

// The examples of a task in memory: token ids of one to three texts each, and the label or score to predict.
// Memory: 4 bytes per token and about 32 per example.
class Examples {
 public:
  // Reads every file of a set, or its part of the rows. Rows that are malformed, have no text at all or, with
  // labels, have an unknown or non-numeric label are skipped and counted. Error if a file cannot be read, or
  // nothing is left.
  //   labels: the label column must exist. Without labels it is ignored.
  //   most_tokens: length limit of a text.
  //   keep: from a set of one file. UsageError for a required column that it lacks.
  static Examples read(const Task& task, const std::vector<Task::Set>& sets, const Tokenizer& tokenizer,
                       bool labels, std::int64_t most_tokens, const KeptColumns& keep = {});

  // Of texts in memory, without labels: one or two texts each, which may be empty. The line of example i is i
  // + 1.
  static Examples of_texts(const std::vector<std::vector<std::string>>& texts, const Tokenizer& tokenizer,
                           std::int64_t most_tokens);

  std::int64_t count() const { return static_cast<std::int64_t>(lines_.size()); }
  bool labelled() const { return labelled_; }
  // Text 0 or 1 of an example, or 2 of one with three; text 1 is empty for tasks with one text.
  std::span<const std::int32_t> text(std::int64_t example, int which) const;
  std::int32_t label(std::int64_t example) const { return labels_.at(example); }
  // The target of a regression; the loss's weight of a classification, 0 before set_weights().
  float score(std::int64_t example) const { return scores_.at(example); }
  // weights: of each class.
  void set_weights(const std::vector<double>& weights);
  // Of several labels: 0 or 1 for each.
  std::span<const float> targets(std::int64_t example) const {
    return std::span(targets_).subspan(example * labels_each_, labels_each_);
  }
  // The line of the file where the example begins.
  std::int64_t line(std::int64_t example) const { return lines_[example]; }

  // The columns that were kept, and an example's fields of them.
  const std::vector<std::string>& kept_columns() const { return kept_columns_; }
  std::span<const KeptField> kept(std::int64_t example) const {
    return std::span(kept_).subspan(example * kept_columns_.size(), kept_columns_.size());
  }

  // The number of rows that were skipped.
  std::int64_t left_out() const { return left_out_; }
  // One sentence per file with skipped rows.
  const std::vector<std::string>& reports() const { return reports_; }
  // What else a user should know of the files, a sentence each.
  const std::vector<std::string>& notes() const { return notes_; }
  // Number of examples of each class, or with each of several labels.
  std::vector<std::int64_t> class_counts(std::size_t classes) const;
  // 32 hexadecimal digits of the contents, in order.
  std::string fingerprint() const;

  std::int32_t vocabulary() const { return vocabulary_; }
  const SpecialIds& special() const { return special_; }
  // The tokenizer's number of separators between two texts in one sequence.
  int pair_separators() const { return pair_separators_; }

 private:
  void read_file(const Task& task, const Task::Set& set, Encoder& encoder, std::int64_t most_tokens,
                 const KeptColumns& keep);
  struct Answer {
    std::int32_t label = 0;
    float score = 0;
    std::vector<float> targets;
  };
  struct Refusals;
  static std::optional<Answer> answer_of(const Task& task, const TableRow& row, Refusals& refusals);
  void find_kept(const TableReader& reader, const KeptColumns& keep);

  bool labelled_ = false;
  std::int32_t vocabulary_ = 0;
  SpecialIds special_;
  int pair_separators_ = 1;
  std::vector<std::int32_t> tokens_;
  std::int64_t texts_each_ = 2;
  std::vector<std::int64_t> offsets_ = {0};  // texts_each_ per example, + 1
  std::vector<std::int32_t> labels_;
  std::vector<float> scores_;
  std::size_t labels_each_ = 0;  // in targets_
  std::vector<float> targets_;
  std::vector<std::int64_t> lines_;
  std::vector<std::string> kept_columns_;
  std::vector<KeptField> kept_;  // of all kept columns for each example
  std::vector<std::string> reports_, notes_;
  std::int64_t left_out_ = 0;
  bool left_unknown_ = false;  // rows because of their label
};

// Whether a row to train on has one of the task's labels. Of one label each.
bool holds_labels_of(const Task& task);
// The class names found in the files' labels: sorted, as numbers if all are integers. Equal JSON numbers,
// such as 1 and 1.0, are one class; in other formats labels are text. Error if there are fewer than two, more
// than 1,000, or nearly one for every row, which suggests a wrong column.
std::vector<std::string> find_labels(const Task& task, const std::vector<Task::Set>& sets);

// Of a regression's scores, by which they are standardised.
struct ScoreScale {
  double mean = 0, std = 1;  // standard deviation
};

// Of the numbers in the label's column of the rows that belong to the sets; 0 and 1 if they are all the same.
ScoreScale find_score_scale(const Task& task, const std::vector<Task::Set>& sets);

// Examples as sequences [CLS] text 0 [SEP], or [CLS] text 0 [SEP] text 1 [SEP] with types 0 and 1, and with
// two separators in the middle if the tokenizer is RoBERTa's. If a sequence is longer than `length`, tokens
// are removed from the end of the text that is currently longer.
class ExampleSamples final : public SampleSource {
 public:
  // examples must outlive this. types: of the model; with one type only, both texts have type 0.
  //   separate: [CLS] text 0 [SEP] and [CLS] text 1 [SEP] are two sequences, each of up to `length`, of type
  //   0.
  //   scale: by which samples have standardised scores.
  ExampleSamples(const Examples& examples, std::int64_t length, std::int64_t types, bool separate = false,
                 const ScoreScale& scale = {});

  std::int32_t vocabulary() const override { return examples_.vocabulary(); }
  const SpecialIds& special() const override { return examples_.special(); }
  std::int64_t count() const override { return examples_.count(); }
  std::int64_t sequences_per_sample() const override { return separate_ ? 2 : 1; }
  std::vector<std::int32_t> lengths() const override;
  std::int64_t length(std::int64_t sample) const override { return sizes(sample).all(); }
  void read(std::int64_t sample, Sample& to) override;
  // How many examples had to be truncated.
  std::int64_t truncated() const;

 private:
  struct Sizes {
    std::int64_t first = 0, second = 0;
    std::int64_t special = 2;  // [CLS] and [SEP]
    bool truncated = false;
    std::int64_t all() const { return first + second + special; }
  };
  Sizes sizes(std::int64_t sample) const;

  const Examples& examples_;
  std::int64_t length_;
  std::int32_t second_type_;
  bool separate_;
  ScoreScale scale_;
};

}  // namespace comera::data
