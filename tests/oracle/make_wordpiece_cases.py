#!/usr/bin/env python3
"""Writes wordpiece_cases.jsonl: texts and the ids that the reference implementation (Hugging Face's tokenizers,
`pip install tokenizers`; 0.23 wrote the file that is checked in) gives them with the two small vocabularies
beside it, which this script writes too.

    python3 tests/oracle/make_wordpiece_cases.py
"""
import json
import pathlib
import random

from tokenizers import BertWordPieceTokenizer

HERE = pathlib.Path(__file__).parent
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = ("the of and in to a is was play word walk stop cafe naive uber strasse el nino resume "
         "return def self value count index none true").split()
ENDINGS = "ing ed s er est ly able ness tion".split()
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
OTHER = list("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~¿«»…—“”€∑→漢字語かなж") + ["я", "б", "ß", "ø", "ł", "σ", "ς", "ا", "د", "ᄀ", "ᅡ", "ᆨ", "अ", "🙂"]


def vocabularies():
    ends = ["##" + e for e in ENDINGS] + ["##" + c for c in LETTERS] + ["##" + c for c in "жябßøσςادᅡᆨ"]
    uncased = SPECIAL + ["[unused1]"] + WORDS + list(LETTERS) + OTHER + ends
    cased = SPECIAL + WORDS + [w.capitalize() for w in WORDS] + list(LETTERS + LETTERS[:26].upper()) + OTHER + \
        ["É", "é", "##é", "Ü", "##ü"] + ends
    return {"uncased": list(dict.fromkeys(uncased)), "cased": list(dict.fromkeys(cased))}


def texts():
    yield from ["", " ", "\t\n", "The playing of words.", "PLAYING", "Stop, stopping; stopped!", "don't stop",
                "Café naïve Über straße", "Cafe\u0301 El Nin\u0303o re\u0301sume\u0301", "ＡＢＣ ﬁ ²", "x\u00a0y\u2003z\u3000w",
                "漢字and語 かな", "\U00020000x\uf900y", "a\u0000b\ufffdc\u200bd\u00ade\u0007f\ufeffg", "a\rb\r\nc\x0bd\x0ce\u2028f\u0085g",
                "[MASK] [CLS] [unused1]", "def value_index(self): return x+=1  # none", "1,000.50$ 3×4=12 ½",
                "ΣΊΣΥΦΟΣ σς Σ", "İstanbul Iı K Å", "각 가나다", "ЖЯБ йё", "हिन्दी", "ا\u064eد", "🙂word🙂🙂", "word…—“word”", "¿word? «a»",
                "q" * 100, "q" * 101, "the " * 30, "é" * 100, "a" * 99 + "é", "\U0001f1e9 x", "a\u0300\u0316\u0301b", "\u0301\u0301", "!\u0301a",
                "ǅ ﷺ \u1e9e", "\u212b\u2126", "x\ue000y", "\U000e0001z"]
    draw = random.Random(7)
    parts = WORDS + ENDINGS + OTHER + list(LETTERS) + [" ", " ", " ", "\n", "\t", "\u0301", "É", "Ü", "ñ", "Č", "Ω", "ё"]
    for _ in range(150):
        yield "".join(part.upper() if draw.random() < 0.2 else part for part in draw.choices(parts, k=draw.randint(1, 25)))


def main():
    tokenizers = {}
    for kind, pieces in vocabularies().items():
        path = HERE / f"wordpiece_{kind}_vocab.txt"
        path.write_text("".join(piece + "\n" for piece in pieces), encoding="utf-8")
        tokenizers[kind] = BertWordPieceTokenizer(str(path), lowercase=kind == "uncased")
    with open(HERE / "wordpiece_cases.jsonl", "w", encoding="utf-8") as out:
        for text in texts():
            if "\0" in text:
                text = text.replace("\0", "")  # no corpus holds one
            row = {"text": text}
            for kind, tokenizer in tokenizers.items():
                # Its special pieces are matched in text before anything else, which this project never does.
                hidden = text.replace("[MASK]", "[ MASK ]").replace("[CLS]", "[ CLS ]").replace("[unused1]", "[ unused1 ]")
                row[kind] = " ".join(map(str, tokenizer.encode(hidden, add_special_tokens=False).ids))
            out.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
