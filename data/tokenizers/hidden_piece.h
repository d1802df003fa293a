#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "data/masking/masked_text.h"

namespace comera::data {

// A sequence of which one piece is hidden, to see whether a model finds it.
struct HiddenPiece {
  MaskedText text;  // all ids of the sequence; its parts are the line around the hidden piece only
  std::int32_t truth = 0;
};

// Hides a piece that `key` decides, of a sequence with [CLS] and [SEP]: a whole word with text on both sides
// of it in its line if there is one, else a part of a word in such a place, else another piece there, else
// any with a visible character. Special and unknown pieces and bytes of characters are never hidden. None if
// there is no other.
std::optional<HiddenPiece> hide_piece(const Tokenizer& tokenizer, std::span<const std::int32_t> ids,
                                      std::uint64_t key);

}  // namespace comera::data
