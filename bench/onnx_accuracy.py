#!/usr/bin/env python3
"""Scores the ONNX files of an exported classifier on a table, in ONNX Runtime: what 8 bits cost, and the time.

    comera export runs/mine --to exported --onnx --int8
    python3 bench/onnx_accuracy.py exported --table dev.tsv --text sentence --label label [--threads 1]

One line per file: its size, the accuracy, how many answers are those of model.onnx, and texts a second (batches of 32
texts of similar length; the fastest of three passes). Needs onnxruntime, numpy and tokenizers.
"""
import argparse
import csv
import json
import pathlib
import time

import numpy
import onnxruntime
from tokenizers import Tokenizer

BATCH = 32


def batches(encoded):
    order = sorted(range(len(encoded)), key=lambda i: len(encoded[i].ids))
    for begin in range(0, len(order), BATCH):
        rows = order[begin:begin + BATCH]
        width = max(len(encoded[i].ids) for i in rows)
        def padded(of):
            return numpy.array([of(i) + [0] * (width - len(encoded[i].ids)) for i in rows], dtype=numpy.int64)
        yield rows, {"input_ids": padded(lambda i: encoded[i].ids), "token_type_ids": padded(lambda i: encoded[i].type_ids),
                     "attention_mask": padded(lambda i: [1] * len(encoded[i].ids))}


def answers(path, encoded, threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = {one.name for one in session.get_inputs()}
    found, best = numpy.zeros(len(encoded), dtype=numpy.int64), float("inf")
    for _ in range(3):
        begin = time.perf_counter()
        for rows, given in batches(encoded):
            found[rows] = session.run(["logits"], {k: v for k, v in given.items() if k in names})[0].argmax(1)
        best = min(best, time.perf_counter() - begin)
    return found, best


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--table", required=True, type=pathlib.Path)
    parser.add_argument("--text", default="sentence")
    parser.add_argument("--label", default="label")
    parser.add_argument("--threads", default=1, type=int)
    parser.add_argument("--length", default=128, type=int)
    options = parser.parse_args()
    with open(options.table, newline="") as file:
        tabs = options.table.suffix == ".tsv"
        rows = list(csv.DictReader(file, delimiter="\t" if tabs else ",", quoting=csv.QUOTE_NONE if tabs else csv.QUOTE_MINIMAL))
    config = json.loads((options.folder / "config.json").read_text())
    labels = numpy.array([config["label2id"][row[options.label]] for row in rows])
    tokenizer = Tokenizer.from_file(str(options.folder / "tokenizer.json"))
    tokenizer.enable_truncation(options.length)
    tokenizer.no_padding()
    encoded = tokenizer.encode_batch([row[options.text] for row in rows])
    exact = None
    for name in ("model.onnx", "model_quantized.onnx"):
        path = options.folder / name
        if not path.exists():
            continue
        found, seconds = answers(path, encoded, options.threads)
        exact = found if exact is None else exact
        print(f"{path}: {path.stat().st_size / 1e6:.2f} MB, accuracy {100 * (found == labels).mean():.2f} %, "
              f"{100 * (found == exact).mean():.2f} % as model.onnx, {len(rows) / seconds:,.0f} texts/s", flush=True)


if __name__ == "__main__":
    main()
