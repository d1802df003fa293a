#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "data/tokenizers/models/piece_model.h"

namespace comera::data {

// Byte-level BPE (Radford et al., 2019), as in RoBERTa and CodeBERT. GPT-2's regular expression splits text
// into words with the space before them, numbers, punctuation and white space; the bytes of each part are
// merged pair by pair in the order of the merges. A byte is written as a printable character, a space as Ġ.
struct ByteLevelBpe {
  std::vector<std::string> pieces;  // as written in the file, by id; empty: the id has no piece
  std::vector<bool> special;        // never produced from text, by id
  std::vector<std::pair<std::string, std::string>> merges;
  std::string unknown;            // empty: none
  bool add_prefix_space = false;  // before a text that does not begin with one
};

// Error, with `name`, if a piece is listed twice, or a merge has missing pieces.
std::unique_ptr<PieceModel> make_byte_level_bpe(ByteLevelBpe parts, const std::string& name);

// The parts into which GPT-2's regular expression splits well-formed UTF-8:
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
std::vector<std::string_view> split_as_gpt2(std::string_view text);

}  // namespace comera::data
