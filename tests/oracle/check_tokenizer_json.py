#!/usr/bin/env python3
"""Compares the ids that Hugging Face's libraries give the lines of a text by a tokenizer that this project
wrote with the ids that this project gives them:

    print_ids TOKENIZER TEXT IDS FOLDER
    python3 tests/oracle/check_tokenizer_json.py FOLDER TEXT IDS

FOLDER has tokenizer.json and, for transformers, its companions; TEXT has lines, or texts that each end with a
zero byte. Pairs of neighbouring ones are compared too, and the text that comes back. Texts with the name of a
special piece are left out, since only the libraries make the piece of it. For unigram models, sequences of the
same score are counted apart. Ends with 1 if anything else differs. Needs tokenizers and transformers (0.23 and
5.24 were used).
"""
import json
import logging
import pathlib
import sys

from tokenizers import Tokenizer
from transformers import AutoTokenizer


def lines_of(path):
    text = pathlib.Path(path).read_bytes().decode("utf-8")
    return text.split("\0" if text.endswith("\0") else "\n")[:-1]


def main(folder, text, ids):
    logging.disable(logging.WARNING)  # of lines that are longer than a model takes
    raw = Tokenizer.from_file(f"{folder}/tokenizer.json")
    whole = AutoTokenizer.from_pretrained(folder)
    parts = json.loads(pathlib.Path(f"{folder}/tokenizer.json").read_text(encoding="utf-8"))
    names = [token["content"] for token in parts["added_tokens"] if token["special"]]
    scores = [score for _, score in parts["model"]["vocab"]] if parts["model"]["type"] == "Unigram" else None
    special = [whole.pad_token_id, whole.unk_token_id, whole.cls_token_id, whole.sep_token_id, whole.mask_token_id]
    assert None not in special and len(set(special)) == 5, special
    cls, sep = whole.cls_token_id, whole.sep_token_id
    lines, ours = lines_of(text), [[int(id) for id in line.split()] for line in lines_of(ids)]
    assert len(lines) == len(ours), (len(lines), len(ours))
    kept = [(line, expected) for line, expected in zip(lines, ours) if not any(name in line for name in names)]
    differ, ties, by_transformers, pairs, not_back = [], 0, 0, 0, 0
    before = None
    for line, expected in kept:
        found = raw.encode(line, add_special_tokens=False).ids
        if found != expected:
            # Both sums are of floats in an order of their own.
            if scores and abs(sum(scores[i] for i in found) - sum(scores[i] for i in expected)) < 1e-6 * len(line):
                ties += 1
            else:
                differ.append((line, found, expected))
            before = None
            continue
        by_transformers += whole(line)["input_ids"] != [cls, *expected, sep]
        not_back += raw.decode(found, skip_special_tokens=False) != line
        if before:
            pair = whole(before[0], line)
            first, second = [cls, *before[1], sep], [*expected, sep]
            pairs += pair["input_ids"] != first + second or \
                pair["token_type_ids"] != [0] * len(first) + [1] * len(second)
        before = (line, expected)
    print(f"{folder}: {len(kept)} texts ({len(lines) - len(kept)} left out), {sum(len(e) for _, e in kept)} ids; "
          f"differ: {len(differ)}" + (f", {ties} by ties" if scores else "") +
          f"; of the others in transformers {by_transformers}, as pairs {pairs}; not given back: {not_back}")
    for line, found, expected in differ[:5]:
        at = next((k for k, (a, b) in enumerate(zip(found, expected)) if a != b), min(len(found), len(expected)))
        theirs, own = ([raw.id_to_token(id) for id in ids[max(0, at - 2):at + 6]] for ids in (found, expected))
        print(f"  {line[:70]!r}: {theirs} instead of {own}")
    return 1 if differ or by_transformers or pairs else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
