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

// The lines of documents in the form that SentencePiece accepts, without line ends: a line end is a separate
// piece, so that no piece spans lines. Text that SentencePiece would skip is cut: lines of more than
// longest_line bytes at a space (or between two characters, if there is none), and lines with its two
// reserved characters at these. The trainer may iterate once; documents are released as they are read.
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

// The shares of all characters that SentencePiece accepts for those with their own piece: up to 1.
constexpr double lowest_coverage = 0.98;

// What training will find in the documents.
struct TrainingCharacters {
  std::int64_t fewest_kinds = 0;  // at the lowest coverage that SentencePiece accepts
  std::int64_t kinds = 0;         // that need their own piece
  std::int64_t learned = 0;       // bytes that pieces are trained on
  DroppedByReason left_out;       // dropped: the reserved characters and the names of special pieces
};

// coverage: the share of all characters that must be among those with a piece.
TrainingCharacters count_characters(const std::map<storage::Hash128, std::string>& documents,
                                    double coverage);

}  // namespace comera::data
