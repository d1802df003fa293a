#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace comera::data {

// Contents of a SentencePiece model file that the library's interface does not expose: the fields of
// sentencepiece_model.proto that are needed here.
struct SentencePieceFile {
  enum class Kind : std::uint8_t { normal = 1, unknown, control, user_defined, unused = 5, byte };
  struct Piece {
    std::string text;
    float score = 0;
    Kind kind = Kind::normal;
  };
  std::vector<Piece> pieces;
  bool bpe = false;  // otherwise unigram, or neither
  bool unigram = true;
  bool byte_fallback = false;
  // Normalisation settings.
  std::string charsmap;
  bool dummy_prefix = true, removes_spaces = true, escapes_spaces = true;
};

// Whether the outermost message is complete: pieces, then the trainer's and the normaliser's settings. A file
// truncated between two pieces still parses, so SentencePiece would not notice.
bool is_whole_sentencepiece(std::string_view bytes);

// For a complete model. Throws Error if a nested message is damaged.
SentencePieceFile read_sentencepiece(std::string_view bytes);

// The same model with its normal pieces in the order of their counts (one for each piece), the most frequent
// first; equal ones keep their order, and other kinds of pieces their ids. It divides texts as before, since
// that follows from scores.
std::string number_by_frequency(std::string_view bytes, const std::vector<std::int64_t>& counts);

}  // namespace comera::data
