#pragma once

#include <array>
#include <span>

// Tables of Unicode that BERT's basic tokenization, byte-level BPE, added tokens and the bounds of words
// need, as the library tokenizers has them; written by scripts/make_unicode_tables.py.
namespace comera::data {

struct Range {
  char32_t first, last;
};

// Whether one of the ranges, sorted and without overlap, holds the character.
bool within(std::span<const Range> ranges, char32_t c);

// Sorted and without overlap.
std::span<const Range> punctuation_characters();  // above ASCII: categories P*
std::span<const Range> control_characters();  // that BERT removes: Cc, Cf, Co but tab and line ends; U+FFFD
std::span<const Range> space_characters();    // White_Space
std::span<const Range> mark_characters();     // that vanish when accents are stripped
std::span<const Range> letter_characters();   // L*
std::span<const Range> number_characters();   // N*
std::span<const Range> word_characters();     // \w of a regular expression

inline bool is_space_character(char32_t c) {
  return c == U' ' || ((c < U' ' || c >= 0x80) && within(space_characters(), c));
}

// What a character becomes, if that is not itself or nothing; 0 fills up.
struct Fold {
  char32_t from;
  std::array<char32_t, 3> to;
};
// Sorted by `from`. Decomposed and without accents, but Hangul syllables, which are decomposed by arithmetic;
// and in lower case.
std::span<const Fold> accent_folds();
std::span<const Fold> case_folds();

}  // namespace comera::data
