#!/usr/bin/env python3
"""Writes data/tokenizers/unicode_tables.cpp: what BERT's basic tokenization and byte-level BPE need to
know of Unicode.

    python3 scripts/make_unicode_tables.py > data/tokenizers/unicode_tables.cpp
"""
import sys
import textwrap
import unicodedata

LAST = 0x10FFFF


def category(code):
    return unicodedata.category(chr(code))


def without_marks(text):
    return "".join(c for c in unicodedata.normalize("NFD", text) if unicodedata.category(c) != "Mn")


def fold(code):
    lowered = "".join(c.lower() for c in without_marks(chr(code)))
    return without_marks(lowered)


def ranges(holds):
    found = []
    for code in range(LAST + 1):
        if not holds(code):
            continue
        if found and found[-1][1] == code - 1:
            found[-1][1] = code
        else:
            found.append([code, code])
    return found


def is_hangul(code):
    return 0xAC00 <= code <= 0xD7A3  # decomposed by arithmetic


def print_table(head, entries):
    print(head + "[] = {")
    print(textwrap.fill(", ".join(entries), 108, initial_indent="  ", subsequent_indent="  "))
    print("};\n")


def print_ranges(name, found):
    print_table(f"constexpr Range {name}", [f"{{0x{a:X},0x{b:X}}}" for a, b in found])


def main():
    folds = [(code, fold(code)) for code in range(LAST + 1)
             if not 0xD800 <= code <= 0xDFFF and not is_hangul(code) and fold(code) != chr(code)]
    marks = [[code, code] for code, to in folds if not to]
    merged = []
    for a, b in marks:
        if merged and merged[-1][1] == a - 1:
            merged[-1][1] = b
        else:
            merged.append([a, b])
    mapped = [(code, [ord(c) for c in to]) for code, to in folds if to]
    widest = max(len(to) for _, to in mapped)
    assert widest <= 3, widest
    print(f"// Unicode {unicodedata.unidata_version}. Written by scripts/make_unicode_tables.py; do not edit.\n")
    print('#include "data/tokenizers/unicode_tables.h"\n\n#include <algorithm>\n\nnamespace comera::data {\nnamespace {\n\n// clang-format off')
    print_ranges("punctuation_ranges", ranges(lambda c: c > 0x7F and category(c).startswith("P")))
    print_ranges("control_ranges", ranges(lambda c: category(c) in ("Cc", "Cf", "Co", "Cs") and chr(c) not in "\t\n\r"))
    print_ranges("space_ranges", ranges(lambda c: category(c) in ("Zs", "Zl", "Zp") or chr(c) in "\t\n\r"))
    print_ranges("mark_ranges", merged)
    print_ranges("letter_ranges", ranges(lambda c: category(c).startswith("L")))
    print_ranges("number_ranges", ranges(lambda c: category(c).startswith("N")))
    print_table("constexpr Fold folds", ["{0x%X,{%s}}" % (code, ",".join("0x%X" % c for c in to))
                                         for code, to in mapped])
    print("// clang-format on\n\n}  // namespace\n")
    print("""bool within(std::span<const Range> ranges, char32_t c) {
  const auto after = std::upper_bound(ranges.begin(), ranges.end(), c,
                                      [](char32_t value, const Range& range) { return value < range.first; });
  return after != ranges.begin() && c <= std::prev(after)->last;
}
""")
    for name in ("punctuation", "control", "space", "mark", "letter", "number"):
        print(f"std::span<const Range> {name}_characters() {{ return {name}_ranges; }}")
    print("std::span<const Fold> case_and_accent_folds() { return folds; }\n\n}  // namespace comera::data")


if __name__ == "__main__":
    sys.exit(main())
