#!/usr/bin/env python3
"""Writes byte_level_bpe.json, a small byte-level BPE tokenizer, and byte_level_bpe_cases.jsonl: texts and the ids
that the reference implementation (Hugging Face's tokenizers, `pip install tokenizers`; 0.23 wrote the files that
are checked in) gives them with it, without and with a space before each text.

    python3 tests/oracle/make_tokenizer_json_cases.py
"""
import json
import pathlib
import random

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent.parent


def train():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=2000, special_tokens=["<s>", "<pad>", "</s>", "<unk>"], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    files = sorted((ROOT / "docs").rglob("*.md")) + sorted((ROOT / "data").glob("*.cpp")) + sorted((ROOT / "scripts").glob("*.py"))
    tokenizer.train([str(file) for file in files], trainer)
    tokenizer.add_special_tokens(["<mask>"])  # behind the model's pieces, and in no vocabulary but added_tokens
    return tokenizer


def texts():
    yield from [
        "", " ", "  ", "a", " a", "a ", "\n", "\t\n", "\r\n", "x\r\ny\r\n", "\n\n\nx", "   x", "x   ", " \t x \t\n  y",
        "def value_index(self): return x += 1  # none", "    for (int i = 0; i < n; ++i) {\n\t\tsum += values[i];\n    }\n",
        "std::vector<std::string> parts_;", "if __name__ == '__main__':", "a->b.c(d)[e] ? f : g;", "/* ---------------- */",
        "================", "#!/usr/bin/env bash", "0x1F + 1e-9 * 3.14159", "camelCaseName HTTPServer2Go snake_case_name",
        "The loss falls; then it doesn't.", "it's we're I've I'm you'll he'd", "IT'S 'S 's ''s '", "don''t 'tis rock'n'roll",
        "'re're 've'll'd'm't's'x", " 's", "1's 2'd", "<mask> <s></s> <pad><unk>", "[MASK] [CLS] [SEP] <|endoftext|>",
        "\u2581the\u2581model \u2581", "caf\u00e9 cafe\u0301 na\u00efve \u00c5ngstr\u00f6m stra\u00dfe", "e\u0301\u0316\u0301 \u0301 a\u20dd",
        "\U0001f642\U0001f642 \U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f1e9\U0001f1ea \u2764\ufe0f", "\u6f22\u5b57 and \u8a9e\u304b\u306a \u30ab\u30bf\u30ab\u30ca", "\uac01 \uac00\ub098\ub2e4 \u1100\u1161\u11a8",
        "\u0416\u042f\u0411 \u0439\u0451 \u03a3\u038a\u03a3 \u05e9\u05dc\u05d5\u05dd \u0627\u064e\u062f \u0939\u093f\u0928\u094d\u0926\u0940 \u0e44\u0e17\u0e22", "\u0661\u0662\u0663 \u0967\u0968 \u0be7 \u2163 \u00bd\u00b2 \u3007 \u4e00 \uff11\uff12 \U0001d7d8 1\u066b5",
        "a\u0000b \u0000\u0000 c", "\u0001\u0002\u0007\u0008\u001b[0m\u007f", "a\u000bb\u000cc\u001cd\u001de\u0085f", "x\u00a0y\u2003z\u3000w\u2028v\u2029u\u202ft\u205f",
        "\u00a0\u00a0x \u00a0 y", "\u200b\u200c\u200d\u2060\ufeff x", "\ufffd\ue000\U0010fffd\uffff\U000e0001", "\u180e\u1680x", "\u00aa\u00ba\u02b0\u01c5\u2160\u249c",
        "\u2026\u2014\u201cquoted\u201d \u2018s \u2019s don\u2019t \u00a9\u00ae\u2122\u20ac\u00a3", "x" * 300, "ab" * 200, " " * 100, "\t" * 50, "-" * 77, "!?" * 60, "9" * 120, "\u00e9" * 99,
        "\U0001f600" * 40, "the " * 50, "\n" * 33 + "x", " \n \n \n", "end of text \u00e9", "end of text \U0001f642 ", "tabs\tand  spaces   \n\n  mixed \t \t x",
    ]
    draw = random.Random(11)
    words = ("the of model value return self loss rank tensor std vector const int if for while def class import "
             "x y i foo_bar HTTP 3 42 1024 don't it's we're caf\u00e9 \u043f\u0440\u0438\u0432\u0435\u0442 \u6f22\u5b57 \U0001f642").split()
    marks = list(" \t\n.,;:()[]{}<>+-*/=!?&|^%#@~`'\"\\_$") + ["  ", "    ", "\n\n", "\r\n", "\n    ", "->", "::", "==", "\u00a0", "\u0301", "\u2003", "'s", "\u2581", "\u0000"]
    for _ in range(250):
        yield "".join(draw.choice(words if draw.random() < 0.5 else marks) for _ in range(draw.randint(1, 30)))
    kinds = [(0x00, 0x180), (0x300, 0x600), (0x600, 0xE00), (0x1E00, 0x2C00), (0x3040, 0xA000), (0xF900, 0xFE00), (0x1D400, 0x1D800), (0x1F300, 0x1F700)]
    for _ in range(100):
        yield "".join(chr(draw.randrange(*draw.choice(kinds))) + draw.choice(["", "", " ", "x"]) for _ in range(draw.randint(1, 20)))


def main():
    tokenizer = train()
    (HERE / "byte_level_bpe.json").write_text(tokenizer.to_str(), encoding="utf-8")
    encoders = {}
    for kind in ("plain", "prefixed"):
        parts = json.loads(tokenizer.to_str())
        parts["added_tokens"] = []  # they would be found in text, which this project never does
        parts["pre_tokenizer"]["add_prefix_space"] = kind == "prefixed"
        encoders[kind] = Tokenizer.from_str(json.dumps(parts))
    with open(HERE / "byte_level_bpe_cases.jsonl", "w", encoding="utf-8") as out:
        for text in texts():
            row = {"text": text}
            for kind, encoder in encoders.items():
                row[kind] = " ".join(map(str, encoder.encode(text, add_special_tokens=False).ids))
            out.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
