#pragma once

#include <cstdint>
#include <vector>

#include "data/tokenizers/tokenizer.h"

namespace comera::data {

// Whether it is a letter, a digit or the underscore, in the scripts of Unicode's first plane that separate
// words by spaces.
bool is_word_character(char32_t c);

// Groups pieces into words, for whole-word masking. A piece belongs to the word of the previous piece if the
// two touch with word characters, or if it can only occur inside a word (a WordPiece "##" piece, or a byte
// that continues a character). Words consist of is_word_character(), so `my_long_name2` is one word, however
// many pieces it has, and `self.count` is three. Every other piece (a space, a run of indentation, a bracket,
// an operator, a piece of Chinese, Japanese or Thai text) is a separate word; a piece that begins with a
// space begins a word. A word ends after `longest` pieces, so that encoded data without spaces is not masked
// as a whole.
class WordTable {
 public:
  static constexpr std::int64_t longest = 16;

  explicit WordTable(const Tokenizer& tokenizer);

  // Whether a piece belongs to the word of the previous piece. Never true of special pieces.
  bool joins(std::int32_t before, std::int32_t id) const {
    const std::uint8_t edge = edges_[static_cast<std::size_t>(id)];
    return (edge & inside) != 0 ||
           ((edge & left) != 0 && (edges_[static_cast<std::size_t>(before)] & right) != 0);
  }
  std::int32_t vocabulary() const { return static_cast<std::int32_t>(edges_.size()); }

 private:
  // Begins with a word character, ends with one, occurs only inside a word.
  static constexpr std::uint8_t left = 1, right = 2, inside = 4;
  std::vector<std::uint8_t> edges_;  // per id; 0 for special pieces
};

}  // namespace comera::data
