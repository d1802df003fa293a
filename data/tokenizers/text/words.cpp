#include "data/tokenizers/text/words.h"

#include "data/tokenizers/text/unicode_tables.h"
#include "data/tokenizers/text/utf8.h"

namespace comera::data {
namespace {

// Above ASCII: non-word characters besides punctuation, control characters and spaces, sorted. Blocks of
// symbols, and scripts without spaces between words.
constexpr Range apart[] = {
    {0x80, 0xA9},        // controls, Latin-1 punctuation and signs, but ª
    {0xAB, 0xB4},        // but µ
    {0xB6, 0xB9},        // but º
    {0xBB, 0xBF},        //
    {0xD7, 0xD7},        // ×
    {0xF7, 0xF7},        // ÷
    {0xE00, 0xEFF},      // Thai, Lao
    {0x1000, 0x109F},    // Burmese
    {0x1780, 0x17FF},    // Khmer
    {0x2000, 0x2BFF},    // punctuation, arrows, mathematical and other symbols
    {0x2E80, 0x312F},    // Chinese radicals, Japanese, Bopomofo; the following Korean letters form words
    {0x3190, 0xA4CF},    // Japanese, Chinese, Yi
    {0xA700, 0xA721},    // tone marks
    {0xA980, 0xA9FF},    // Javanese, Burmese
    {0xAA60, 0xAADF},    // Burmese, Tai Viet
    {0xD800, 0xFAFF},    // private use, compatibility ideographs
    {0xFE00, 0xFE6F},    // variation selectors, vertical and small forms
    {0xFF00, 0x10FFFF},  // full and half width forms; emoji, rare ideographs and all beyond the first plane
};

// Whether text begins with a word character. If a piece ends within its first character, that character's
// first byte distinguishes the two-byte scripts, which are nearly all letters, from the rest.
bool is_word(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  if (continues_character(text[0])) return false;
  const std::size_t length = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  std::size_t at = 0;
  return text.size() < length ? length == 2 : is_word_character(next_character(text, at));
}

// A piece that only continues a character ends as the word containing it.
bool ends_as_word(std::string_view text) {
  std::size_t last = text.size();
  while (last > 0 && continues_character(text[last - 1])) --last;
  return last == 0 || is_word(text.substr(last - 1));
}

}  // namespace

bool is_word_character(char32_t c) {
  if (c < 0x80) return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  return !within(apart, c) && !within(punctuation_characters(), c) && !within(control_characters(), c) &&
         !within(space_characters(), c);
}

WordTable::WordTable(const Tokenizer& tokenizer) : edges_(static_cast<std::size_t>(tokenizer.vocabulary())) {
  for (std::int32_t id = 0; id < tokenizer.vocabulary(); ++id) {
    if (tokenizer.special().contains(id)) continue;
    const PieceText piece = tokenizer.text(id);
    if (piece.bytes.empty()) continue;
    std::uint8_t& edge = edges_[static_cast<std::size_t>(id)];
    if (piece.inside_word || continues_character(piece.bytes[0])) edge |= inside;
    if (is_word(piece.bytes)) edge |= left;
    if (ends_as_word(piece.bytes)) edge |= right;
  }
}

}  // namespace comera::data
