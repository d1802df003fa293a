#!/usr/bin/env python3
"""Writes data/tokenizers/text/unicode_tables.cpp: what BERT's basic tokenization, byte-level BPE and added tokens
need to know of Unicode. Every character is put to the library tokenizers (PyPI, 0.23.3), since its tables are of
several versions of Unicode.

    python3 scripts/make_unicode_tables.py > data/tokenizers/text/unicode_tables.cpp
"""
import sys
import textwrap

import tokenizers
from tokenizers import AddedToken, Tokenizer, models
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer, ByteLevel

CODES = [code for code in range(0x110000) if not 0xD800 <= code <= 0xDFFF]


def ranges(holds):
    found = []
    for code in CODES:
        if not holds(chr(code)):
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
    print_table(f"constexpr Range {name}_ranges", [f"{{0x{a:X},0x{b:X}}}" for a, b in found])


def print_folds(name, normalizer):
    becomes = [(code, normalizer.normalize_str(chr(code))) for code in CODES if not is_hangul(code)]
    changed = [(code, to) for code, to in becomes if to not in ("", chr(code))]
    assert max(len(to) for _, to in changed) <= 3
    print_table(f"constexpr Fold {name}", ["{0x%X,{%s}}" % (code, ",".join("0x%X" % ord(c) for c in to))
                                           for code, to in changed])


def bert(clean=False, strip=False, lower=False):
    return BertNormalizer(clean_text=clean, handle_chinese_chars=False, strip_accents=strip, lowercase=lower)


def main():
    bert_parts, gpt2_parts = BertPreTokenizer(), ByteLevel(add_prefix_space=False)
    count = lambda splitter, text: len(splitter.pre_tokenize_str(text))
    alone = Tokenizer(models.WordPiece({"[UNK]": 0}, unk_token="[UNK]"))
    alone.add_tokens([AddedToken("zq", single_word=True, normalized=False)])
    clean, strip = bert(clean=True), bert(strip=True)
    print(f"// As tokenizers {tokenizers.__version__} has it. Written by scripts/make_unicode_tables.py; do not edit.\n")
    print('#include "data/tokenizers/text/unicode_tables.h"\n\n#include <algorithm>\n\nnamespace comera::data {\nnamespace {\n\n// clang-format off')
    tables = {
        "punctuation": lambda c: ord(c) > 0x7F and count(bert_parts, f"a{c}a") == 3,
        "control": lambda c: clean.normalize_str(c) == "",
        "space": lambda c: count(bert_parts, f"a{c}a") == 2,
        "mark": lambda c: strip.normalize_str(c) == "",
        "letter": lambda c: count(gpt2_parts, f"a{c}a") == 1,
        "number": lambda c: count(gpt2_parts, f"1{c}1") == 1,
        "word": lambda c: 1 not in alone.encode(f"zq{c}").ids,
    }
    for name, holds in tables.items():
        print_ranges(name, ranges(holds))
    print_folds("accent_table", strip)
    print_folds("case_table", bert(lower=True))
    print("// clang-format on\n\n}  // namespace\n")
    print("""bool within(std::span<const Range> ranges, char32_t c) {
  const auto after = std::upper_bound(ranges.begin(), ranges.end(), c,
                                      [](char32_t value, const Range& range) { return value < range.first; });
  return after != ranges.begin() && c <= std::prev(after)->last;
}
""")
    for name in tables:
        print(f"std::span<const Range> {name}_characters() {{ return {name}_ranges; }}")
    print("std::span<const Fold> accent_folds() { return accent_table; }")
    print("std::span<const Fold> case_folds() { return case_table; }\n\n}  // namespace comera::data")


if __name__ == "__main__":
    sys.exit(main())
