#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/tokenizers/models/piece_model.h"

namespace comera::data {

// BERT's tokenization (Devlin et al., 2019): text is normalised, split at white space and around punctuation,
// and each word is greedily split into its longest leading pieces. The settings are those of BertNormalizer
// and WordPiece in Hugging Face's tokenizers.
struct WordPiece {
  std::vector<std::string> pieces;  // by id; empty: the id has no piece
  std::string unknown = "[UNK]";
  bool clean_text = true;          // removes control characters
  bool chinese_characters = true;  // each ideograph is a word
  bool strip_accents = true;       // decomposes text and removes accents
  bool lowercase = true;
  std::int64_t longest_word = 100;  // characters; longer words are unknown
};

// Error, with `name`, if the unknown piece is not among them.
std::unique_ptr<PieceModel> make_wordpiece(WordPiece parts, const std::string& name);

// A vocab.txt, one piece per line; the line number is the id. As in Hugging Face's tokenizers, white space at
// the end of a line is ignored, and the last of equal lines counts; empty lines and the others are holes.
struct VocabularyText {
  std::vector<std::string> pieces;
  std::int64_t empty_line =
      -1;  // the last one, which counts as a piece when ids are assigned to others; -1: none
};
VocabularyText read_vocab_txt(const std::string& bytes);

// Whether text can produce a piece with a capital letter: a vocabulary of cased rather than lower-cased text.
bool has_capitals(const std::vector<std::string>& pieces);

// The older rule for vocabularies without other files: any piece that is not in brackets.
bool has_capitals_anywhere(const std::vector<std::string>& pieces);

// A bare vocab.txt with [UNK]: lower-cased and without accents unless a piece that is not in brackets has one
// of A to Z. Null if the bytes are not such a file.
std::unique_ptr<PieceModel> open_wordpiece(const std::string& bytes, const std::string& name);

}  // namespace comera::data
