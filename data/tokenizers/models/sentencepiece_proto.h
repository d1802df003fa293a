#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace comera::data {

// What a SentencePiece model's file says, as far as the library's own interface does not: the fields of
// sentencepiece_model.proto that are needed here.
struct SentencePieceFile {
  enum class Kind : std::uint8_t { normal = 1, unknown, control, user_defined, unused = 5, byte };
  struct Piece {
    std::string text;
    float score = 0;
    Kind kind = Kind::normal;
  };
  std::vector<Piece> pieces;
  bool bpe = false;  // else unigram, or one that is neither
  bool unigram = true;
  bool byte_fallback = false;
  // How text is prepared.
  std::string charsmap;
  bool dummy_prefix = true, removes_spaces = true, escapes_spaces = true;
};

// Whether the outermost message is whole: pieces, then the trainer's and the normaliser's settings. A file
// cut between two pieces still parses, so SentencePiece would not notice.
bool is_whole_sentencepiece(std::string_view bytes);

// Of a whole model. Throws Error if a message within is damaged.
SentencePieceFile read_sentencepiece(std::string_view bytes);

}  // namespace comera::data
