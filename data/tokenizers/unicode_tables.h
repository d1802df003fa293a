#pragma once

#include <array>
#include <span>

// Tables of Unicode that BERT's basic tokenization, byte-level BPE and the bounds of words need; written by
// scripts/make_unicode_tables.py.
namespace comera::data {

struct Range {
  char32_t first, last;
};

// Whether one of the ranges, sorted and without overlap, holds the character.
bool within(std::span<const Range> ranges, char32_t c);

// Sorted and without overlap.
std::span<const Range> punctuation_characters();  // above ASCII: categories P*
std::span<const Range> control_characters();      // Cc, Cf, Co, Cs, but tab, line feed and carriage return
std::span<const Range> space_characters();        // Zs, Zl, Zp and those three
std::span<const Range> mark_characters();         // that vanish when accents are stripped
std::span<const Range> letter_characters();       // L*
std::span<const Range> number_characters();       // N*

// What a character becomes in lower case, decomposed and without accents, if that is not itself; 0 fills up.
// Hangul syllables, which are decomposed by arithmetic, are not in it.
struct Fold {
  char32_t from;
  std::array<char32_t, 3> to;
};
std::span<const Fold> case_and_accent_folds();  // sorted by `from`

}  // namespace comera::data
