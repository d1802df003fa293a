#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace comera::data {

// The text of a piece.
struct PieceText {
  std::string bytes;         // empty for a special piece
  bool byte = false;         // a single byte, for characters without a piece, or another part of a character
  bool inside_word = false;  // never begins a word
};

// Kinds of characters, by their first or last byte.
enum CharacterKind : std::uint8_t { letter, digit, punctuation, space, line_end, tab, other };
inline constexpr int character_kinds = 7;
CharacterKind kind_of(char c);

// [a][b]: no piece has a character of kind a before one of kind b, so text may be cut between them without
// changing the ids.
using Cuts = std::array<std::array<bool, character_kinds>, character_kinds>;

// How one kind of tokenizer file converts text to pieces and back. Immutable, and may be shared by threads.
class PieceModel {
 public:
  virtual ~PieceModel() = default;
  virtual std::int32_t size() const = 0;
  // -1: no such piece.
  virtual std::int32_t find(std::string_view piece) const = 0;
  virtual std::int32_t unknown() const = 0;  // -1: none
  virtual std::string piece(std::int32_t id) const = 0;
  virtual PieceText text(std::int32_t id) const = 0;
  // Whether text never produces the piece.
  virtual bool is_control(std::int32_t id) const = 0;
  virtual Cuts cuts() const = 0;
  // Appends to ids.
  virtual void encode(std::string_view part, std::vector<std::int32_t>& ids) const = 0;
  // The same for text in the middle of a longer one, with a piece before or after it that is not given.
  virtual void encode_between(std::string_view part, bool piece_before, bool piece_behind,
                              std::vector<std::int32_t>& ids) const = 0;
  virtual std::string decode(std::span<const std::int32_t> ids) const = 0;
  // The form of an added token in a text, with the space before it if words have one.
  virtual std::string added_text(const std::string& content) const { return content; }
  // The text that words are cut from, in which normalised added tokens are searched. Encoding it gives the
  // same as encoding the text itself.
  virtual std::string normalize(std::string_view text) const { return std::string(text); }
  // The members of a tokenizer.json (tokenizer_json.h) that describe the same model: normalizer,
  // pre_tokenizer, decoder, model, and in added_tokens the id and content of pieces that are found in text
  // before all others. Error if no such description gives the same ids.
  virtual nlohmann::ordered_json tokenizer_json() const = 0;
};

// The pieces as members of an object whose values are their ids; empty pieces are left out.
nlohmann::ordered_json ids_by_piece(std::span<const std::string> pieces);

// U+2581, SentencePiece's replacement for a space.
inline constexpr std::string_view space_symbol = "\xe2\x96\x81";

// Null if the bytes are not such a file; Error, with `name`, if they are but cannot be used.
std::unique_ptr<PieceModel> open_sentencepiece(const std::string& bytes, const std::string& name);

}  // namespace comera::data
