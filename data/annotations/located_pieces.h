#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "data/tokenizers/tokenizer.h"

namespace comera::data {

// A piece and the bytes of the text that it stands for.
struct LocatedPiece {
  std::int32_t id = 0;
  std::int32_t begin = 0, end = 0;
};

// The pieces of a text with their places. With a tokenizer that changes text, such as WordPiece, a piece's
// place is that of its whole word, or of the punctuation character.
std::vector<LocatedPiece> located_pieces(const Tokenizer& tokenizer, std::string_view text);

}  // namespace comera::data
