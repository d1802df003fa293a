#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "data/tokenizers/models/piece_model.h"

namespace comera::data {

// Byte-level BPE (Radford et al., 2019), as RoBERTa and CodeBERT have it. Text is parted by GPT-2's regular
// expression into words with the space before them, numbers, punctuation and white space; each part's bytes
// are joined pair by pair in the order of the merges. A byte is written as a printable character, a space as
// Ġ.
struct ByteLevelBpe {
  std::vector<std::string> pieces;  // as they are written, by their ids; empty: no piece has that id
  std::vector<bool> special;        // that no text gives, by their ids
  std::vector<std::pair<std::string, std::string>> merges;
  std::string unknown;            // empty: there is none
  bool add_prefix_space = false;  // before a text that does not begin with one
};

// Error, with `name`, if a piece stands in it twice, or a merge is of pieces that are not there.
std::unique_ptr<PieceModel> make_byte_level_bpe(ByteLevelBpe parts, const std::string& name);

// Calls visit with the parts into which GPT-2's regular expression cuts well-formed UTF-8:
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
std::vector<std::string_view> split_as_gpt2(std::string_view text);

}  // namespace comera::data
