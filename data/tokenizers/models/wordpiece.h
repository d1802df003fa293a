#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/tokenizers/models/piece_model.h"

namespace comera::data {

// BERT's tokenization (Devlin et al., 2019): text is normalised, cut at white space and around punctuation,
// and each word becomes the longest pieces that it begins with. The settings are those of tokenizers'
// BertNormalizer and WordPiece.
struct WordPiece {
  std::vector<std::string> pieces;  // by their ids; empty: no piece has that id
  std::string unknown = "[UNK]";
  bool clean_text = true;          // control characters are removed
  bool chinese_characters = true;  // each ideograph is a word
  bool strip_accents = true;       // text is decomposed, and marks are removed
  bool lowercase = true;
  std::int64_t longest_word = 100;  // characters; longer ones are unknown
};

// Error, with `name`, if the unknown piece is not among them.
std::unique_ptr<PieceModel> make_wordpiece(WordPiece parts, const std::string& name);

// A vocab.txt, one piece a line, whose number is its id. As in tokenizers, white space at the end of a line
// is not part of it, and of equal lines the last one counts; empty lines and the others are holes.
struct VocabularyText {
  std::vector<std::string> pieces;
  std::int64_t empty_line =
      -1;  // the last one, which counts as a piece where ids are given to others; -1: none
};
VocabularyText read_vocab_txt(const std::string& bytes);

// Whether text can give a piece with a capital letter: a vocabulary of text as it is, rather than in lower
// case.
bool has_capitals(const std::vector<std::string>& pieces);

// The older judgement, by which vocabularies without other files were taken: any piece that is not in
// brackets.
bool has_capitals_anywhere(const std::vector<std::string>& pieces);

// A bare vocab.txt with [UNK]: in lower case and without accents unless a piece that is not in brackets has
// one of A to Z. Null if the bytes are no such file.
std::unique_ptr<PieceModel> open_wordpiece(const std::string& bytes, const std::string& name);

}  // namespace comera::data
