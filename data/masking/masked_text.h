#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizers/tokenizer.h"

namespace comera::data {

// A text in which each "[MASK]", or the tokenizer's own name of that piece ("<mask>"), replaces one piece.
struct MaskedText {
  static constexpr std::string_view mark = "[MASK]";

  std::vector<std::string> parts;       // the text around the marks: one part more than marks
  std::vector<bool> takes_space;        // per mark: whether the space before it belongs to its piece
  std::vector<std::int32_t> ids;        // the model's input, between [CLS] and [SEP]
  std::vector<std::int32_t> positions;  // of the marks in ids
};

// The text with something in place of one mark.
struct Reading {
  std::string before, filling, behind;
  std::string text() const { return before + filling + behind; }
};

// Creates and fills texts with marks. The text between two marks becomes the ids that it has in the middle of
// a text whose pieces end at the marks (Tokenizer::encode_between). A single-space piece directly before a
// mark is left out of the ids and belongs to the mark, if the tokenizer has words that begin with their
// space: in "for i in [MASK](10):" the mark replaces " range".
class MaskedTextReader {
 public:
  // The tokenizer must outlive this.
  explicit MaskedTextReader(const Tokenizer& tokenizer);

  // The text is UTF-8. Without a mark in it the result has no positions.
  MaskedText read(std::string_view text) const;
  // With the mark itself, or with a piece; pieces that are not text (a special piece, a byte of a character)
  // are shown by name. All other marks stay.
  Reading unfilled(const MaskedText& text, std::size_t mark) const;
  Reading filled(const MaskedText& text, std::size_t mark, std::int32_t id) const;

 private:
  struct Mark {
    std::size_t at, size;  // at: npos if there is none
  };
  Mark next_mark(std::string_view text) const;

  const Tokenizer& tokenizer_;
  std::string own_mark_;
  bool words_have_spaces_ = false;
};

}  // namespace comera::data
