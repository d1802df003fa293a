#pragma once

#include <sentencepiece_trainer.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "data/corpus/dropped.h"
#include "storage/hash.h"

namespace comera::data {

// The lines of documents as SentencePiece takes them, without their ends: a line end is a piece of its own,
// so that nothing is learned across it. What it would pass over is cut: lines of more than longest_line bytes
// at a space (or between two characters, if there is none), and lines with the two characters that it keeps
// for itself at these. The trainer may go through them once; documents are released as they are read.
class TrainingLines final : public sentencepiece::SentenceIterator {
 public:
  static constexpr std::size_t longest_line = 16384;

  // Texts in the order of their keys.
  explicit TrainingLines(std::map<storage::Hash128, std::string> documents);

  bool done() const override { return done_; }
  const std::string& value() const override { return line_; }
  sentencepiece::util::Status status() const override { return {}; }
  void Next() override;

 private:
  std::map<storage::Hash128, std::string> documents_;
  std::size_t at_ = 0;  // in the first of them
  std::string line_;
  bool done_ = false;
};

// Shares of all characters that SentencePiece takes for those that have a piece of their own: up to 1.
constexpr double lowest_coverage = 0.98;

// What training will find in documents.
struct TrainingCharacters {
  std::int64_t fewest_kinds = 0;  // at the lowest coverage that SentencePiece takes
  std::int64_t kinds = 0;         // that need a piece of their own
  std::int64_t learned = 0;       // bytes that pieces are learned from
  DroppedByReason left_out;       // of the others: the reserved characters and the names of special pieces
};

// coverage: the share of all characters that must be among those with a piece.
TrainingCharacters count_characters(const std::map<storage::Hash128, std::string>& documents,
                                    double coverage);

}  // namespace comera::data
