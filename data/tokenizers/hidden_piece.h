#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "data/masking/masked_text.h"

namespace comera::data {

// A sequence with one masked piece, to test whether a model predicts it.
struct HiddenPiece {
  MaskedText text;  // all ids of the sequence; its parts are only the line around the masked piece
  std::int32_t truth = 0;
};

// Masks a piece, chosen by `key`, of a sequence with [CLS] and [SEP]: preferably a whole word with text on
// both sides in its line, else a part of a word in such a position, else another piece there, else any with a
// visible character. Special and unknown pieces and bytes of characters are never masked. None if there is no
// candidate.
std::optional<HiddenPiece> hide_piece(const Tokenizer& tokenizer, std::span<const std::int32_t> ids,
                                      std::uint64_t key);

}  // namespace comera::data
