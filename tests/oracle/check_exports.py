#!/usr/bin/env python3
"""Compares exported models with comera's own: logits by transformers, ids by AutoTokenizer.

    python3 tests/oracle/check_exports.py --build build/release --texts TEXTS MODEL... [--work FOLDER]

MODEL is a checkpoint or a run's folder. Each is exported as it is and, if it has any, with its tensor trains; the
first 100 lines of TEXTS (two texts of a line: a tab between them) go through both programs. Needs torch,
transformers and safetensors.
"""
import argparse
import pathlib
import subprocess
import sys

import torch
from safetensors.torch import load_file
from transformers import (AutoConfig, AutoModelForMaskedLM, AutoModelForQuestionAnswering,
                          AutoModelForSequenceClassification, AutoModelForTokenClassification, AutoTokenizer)

LINES = 100
TOLERANCE = 1e-4
OF_TOKENS = {"ForMaskedLM": AutoModelForMaskedLM, "ForTokenClassification": AutoModelForTokenClassification,
             "ForQuestionAnswering": AutoModelForQuestionAnswering}


def padded(rows, fill):
    width = max(len(row) for row in rows)
    return torch.tensor([row + [fill] * (width - len(row)) for row in rows])


def batches(given, size):
    for begin in range(0, len(given), size):
        yield given[begin:begin + size]


def compare(folder, expected, count, batch):
    config = AutoConfig.from_pretrained(folder, trust_remote_code=True)
    of_tokens = [kind for name, kind in OF_TOKENS.items() if config.architectures[0].endswith(name)]
    kind = of_tokens[0] if of_tokens else AutoModelForSequenceClassification
    model, loading = kind.from_pretrained(folder, trust_remote_code=True, output_loading_info=True)
    strange = {key: value for key, value in loading.items() if value}
    model.eval()
    worst = 0.0
    for numbers in batches(range(count), batch):
        ids, types = ([[int(v) for v in expected[f"{i}.{name}"]] for i in numbers] for name in ("ids", "types"))
        seconds = [int(expected[f"{i}.second"]) for i in numbers]
        given = {}
        if seconds[0]:
            rest = [row[s:] for row, s in zip(ids, seconds)]
            ids = [row[:s] for row, s in zip(ids, seconds)]
            types = [row[:s] for row, s in zip(types, seconds)]
            given = {"second_input_ids": padded(rest, 0),
                     "second_attention_mask": padded([[1] * len(row) for row in rest], 0)}
        with torch.no_grad():
            said = model(input_ids=padded(ids, 0), attention_mask=padded([[1] * len(row) for row in ids], 0),
                         token_type_ids=padded(types, 0), **given)
        logits = said.logits if hasattr(said, "logits") else torch.stack((said.start_logits, said.end_logits), -1)
        for row, i in enumerate(numbers):
            positions = [int(v) for v in expected[f"{i}.positions"]]
            found = logits[row, positions].flatten() if of_tokens else logits[row]
            difference = (found - expected[f"{i}.logits"]).abs().max().item()
            worst = max(worst, difference if difference == difference else float("inf"))
    return worst, strange, config.model_type


def different_ids(folder, expected, texts):
    if not (folder / "tokenizer.json").exists(): return 0
    tokenizer = AutoTokenizer.from_pretrained(folder)
    different = 0
    for i, text in enumerate(texts):
        if "\t" in text or int(expected[f"{i}.second"]):
            continue
        ids = [int(v) for v in expected[f"{i}.ids"]]
        found = tokenizer(text)["input_ids"]
        if len(ids) < 102:
            different += found != ids
    return different


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release", type=pathlib.Path)
    parser.add_argument("--texts", required=True, type=pathlib.Path)
    parser.add_argument("--work", default="/tmp/comera-exports", type=pathlib.Path)
    parser.add_argument("--batch", default=7, type=int)
    parser.add_argument("models", nargs="+", type=pathlib.Path)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    texts = options.texts.read_text().split("\n")[:LINES]
    given = options.work / "texts.txt"
    given.write_text("\n".join(texts) + "\n")
    failed = 0
    for model in options.models:
        output = options.work / "logits.safetensors"
        subprocess.run([options.build / "tests/oracle/print_logits", model, given, output], check=True)
        expected = load_file(output)
        for flags in ([], ["--tensor-trains"]):
            folder = options.work / (model.name + ("-trains" if flags else ""))
            exported = subprocess.run([options.build / "cli/comera", "export", model, "--to", folder, "--overwrite", *flags],
                                      capture_output=True, text=True)
            if flags and exported.returncode == 2:
                continue  # it has none
            if exported.returncode:
                sys.exit(exported.stderr)
            worst, strange, kind = compare(folder, expected, len(texts), options.batch)
            ids = different_ids(folder, expected, texts)
            bad = worst > TOLERANCE or strange or ids
            failed += bool(bad)
            print(f"{'BAD ' if bad else 'good'} {folder.name}: {kind}, logits differ by at most {worst:.1e}, "
                  f"{ids} lines have other ids {strange or ''}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
