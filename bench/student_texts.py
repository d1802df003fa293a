#!/usr/bin/env python3
"""Makes the texts that students of a sentence encoder read: one sentence a line, each once, in random order.

    bench/student_texts.py GLUE OUTPUT [TEXT ...] --without TABLE ...

GLUE is a folder of GLUE's tasks, of whose training sets (of QNLI, which has none here, the dev set) the texts are
taken, without labels. A TEXT is a file of plain text, which is cut into sentences. No text of a table in --without (of
those that the student is scored on) is written.
"""
import argparse
import pathlib
import random
import re

COLUMNS = {"MNLI/train.tsv": ("sentence1", "sentence2"), "QQP/train.tsv": ("question1", "question2"),
           "SST-2/train.tsv": ("sentence",), "MRPC/train.tsv": ("#1 String", "#2 String"),
           "RTE/train.tsv": ("sentence1", "sentence2"), "QNLI/dev.tsv": ("question", "sentence"),
           "CoLA/train.tsv": (3,)}
SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=\S)")


def rows(path, columns):
    """The texts of a table without quoting, by the columns' names, or by their number where it has no header."""
    lines = path.read_text(encoding="utf-8-sig").split("\n")
    if isinstance(columns[0], str):
        header = lines.pop(0).rstrip("\r").split("\t")
        columns = [header.index(name) for name in columns]
    for line in lines:
        fields = line.rstrip("\r").split("\t")
        if len(fields) > max(columns):
            yield from (fields[column].strip() for column in columns)


def sentences(path):
    for line in path.read_text(encoding="utf-8", errors="replace").split("\n"):
        yield from (part.strip() for part in SENTENCE_END.split(line.replace("\t", " ")))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("glue", type=pathlib.Path)
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("texts", type=pathlib.Path, nargs="*")
    parser.add_argument("--without", type=pathlib.Path, nargs="*", default=[])
    options = parser.parse_args()
    scored = {text.lower() for path in options.without for text in rows(path, ("sentence1", "sentence2"))}
    found, kept = {}, []
    for name, columns in COLUMNS.items():
        found[name] = list(rows(options.glue / name, columns))
    for path in options.texts:
        found[path.name] = list(sentences(path))
    seen = set(scored)
    for name, texts in found.items():
        before = len(kept)
        for text in texts:
            if text.lower() not in seen and len(text.split()) > 2:
                seen.add(text.lower())
                kept.append(text)
        print(f"{len(kept) - before:8} texts of {name}")
    random.Random(1).shuffle(kept)
    options.output.write_text("\n".join(kept) + "\n", encoding="utf-8")
    print(f"{len(kept):8} in all, {sum(map(len, kept)) / 1e6:.1f} million characters")


if __name__ == "__main__":
    main()
