#include "data/annotations/located_pieces.h"

#include <optional>

#include "data/tokenizers/text/unicode_tables.h"
#include "data/tokenizers/text/utf8.h"

namespace comera::data {

namespace {

// Where the pieces' own texts, one after another, are the text, but for a space before it.
std::optional<std::vector<LocatedPiece>> by_their_texts(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<LocatedPiece> pieces;
  std::string all;
  for (const std::int32_t id : tokenizer.encode(text)) {
    const auto begin = static_cast<std::int32_t>(all.size());
    all += tokenizer.text(id).bytes;
    pieces.push_back({id, begin, static_cast<std::int32_t>(all.size())});
  }
  if (all == text) return pieces;
  if (all.size() != text.size() + 1 || all[0] != ' ' || std::string_view(all).substr(1) != text)
    return std::nullopt;
  for (LocatedPiece& piece : pieces) {
    if (piece.begin > 0) --piece.begin;
    --piece.end;
  }
  return pieces;
}

enum class Kind : std::uint8_t { space, punctuation, word };

Kind kind_of_character(char32_t c) {
  if (is_space_character(c)) return Kind::space;
  const bool ascii =
      (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
  return ascii || (c >= 0x80 && within(punctuation_characters(), c)) ? Kind::punctuation : Kind::word;
}

// Words, and single punctuation characters.
std::vector<LocatedPiece> units_of(std::string_view text) {
  std::vector<LocatedPiece> units;
  Kind before = Kind::space;
  for (std::size_t at = 0; at < text.size();) {
    const auto begin = static_cast<std::int32_t>(at);
    const Kind kind = kind_of_character(next_character(text, at));
    const auto end = static_cast<std::int32_t>(at);
    if (kind == Kind::word && before == Kind::word)
      units.back().end = end;
    else if (kind != Kind::space)
      units.push_back({.id = 0, .begin = begin, .end = end});
    before = kind;
  }
  return units;
}

}  // namespace

std::vector<LocatedPiece> located_pieces(const Tokenizer& tokenizer, std::string_view text) {
  if (auto pieces = by_their_texts(tokenizer, text)) return *pieces;
  std::vector<LocatedPiece> pieces;
  const std::vector<LocatedPiece> units = units_of(text);
  for (std::size_t i = 0; i < units.size(); ++i) {
    const auto [_, begin, end] = units[i];
    const bool apart = i > 0 && units[i - 1].end < begin;
    const std::string unit = (apart ? " " : "") + std::string(text.substr(begin, end - begin));
    const std::vector<std::int32_t> ids = tokenizer.is_sentencepiece()
                                              ? tokenizer.encode_between(unit, i > 0, i + 1 < units.size())
                                              : tokenizer.encode(unit);
    for (const std::int32_t id : ids) pieces.push_back({id, begin, end});
  }
  return pieces;
}

}  // namespace comera::data
