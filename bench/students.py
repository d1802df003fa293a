#!/usr/bin/env python3
"""How good sentence encoders are, and what they cost: students, their teacher, and other programs that run them.

    bench/students.py measure GLUE RESULTS.jsonl NAME=KIND:MODEL ... [--comera BINARY] [--rounds 3]
    bench/students.py table RESULTS.jsonl

KIND is comera (float32), comera-bf16, onnx or sentence-transformers; MODEL a checkpoint, a run or a folder that
`comera export --sentence-vectors --onnx [--int8]` wrote (onnx takes the path of one file in it, and the mean over the
tokens). Each encodes the same texts with one thread, in rounds that take turns:

- STS-B's dev set: Spearman's correlation of the cosines with the scores;
- 1,000 entailed pairs of MNLI's matched dev set, and the duplicates of QQP's dev set: the mean of 1 / rank of the second
  text among all second texts, by the first (texts with an equal cosine count as better);
- seconds of the processor: of all texts, less those of one text, the median of the rounds; and the peak memory.

`table` prints Markdown, and means and deviations of models of one kind whose names differ only in a number behind a
hyphen.
Needs numpy, scipy and h5py, and onnxruntime with tokenizers, or sentence-transformers, for the other programs.
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

import numpy
from scipy.stats import spearmanr  # ties get their mean rank

LENGTH, BATCH = 128, 32


def table(path):
    lines = path.read_text(encoding="utf-8-sig").split("\n")
    header = lines[0].rstrip("\r").split("\t")
    for line in lines[1:]:
        fields = line.rstrip("\r").split("\t")
        if len(fields) == len(header):
            yield dict(zip(header, fields))


class Texts:
    """All texts once, and which of them belong together."""

    def __init__(self, glue):
        self.places = {}
        rows = list(table(glue / "STS-B/dev.tsv"))
        self.scores = [float(row["score"]) for row in rows]
        self.similar = [self.pair(row["sentence1"], row["sentence2"]) for row in rows]
        entailed = [row for row in table(glue / "MNLI/dev_matched.tsv") if row["gold_label"] == "entailment"]
        self.found = {
            "mnli": [self.pair(row["sentence1"], row["sentence2"]) for row in entailed[:1000]],
            "qqp": [self.pair(row["question1"], row["question2"]) for row in table(glue / "QQP/dev.tsv")
                    if row["is_duplicate"] == "1"]}

    def pair(self, *texts):
        return [self.places.setdefault(" ".join(text.split()), len(self.places)) for text in texts]

    def of(self, vectors):
        vectors = vectors / numpy.linalg.norm(vectors, axis=1, keepdims=True)
        first, second = numpy.array(self.similar).T
        result = {"spearman": float(spearmanr((vectors[first] * vectors[second]).sum(1), self.scores)[0])}
        for name, pairs in self.found.items():
            documents = sorted({document for _, document in pairs})
            right = {}
            for query, document in pairs:
                right.setdefault(query, set()).add(document)
            ranks = []
            for query, document in pairs:
                cosines = vectors[documents] @ vectors[query]
                wrong = numpy.array([place not in right[query] for place in documents])
                ranks.append(1 + ((cosines >= cosines[documents.index(document)]) & wrong).sum())
            result[f"mrr_{name}"] = float(numpy.mean(1 / numpy.array(ranks)))
        return result


def encode(kind, model, texts, output):
    """In a process of its own: writes vectors (texts × width)."""
    lines = pathlib.Path(texts).read_text(encoding="utf-8").splitlines()
    if kind == "sentence-transformers":
        import torch
        from sentence_transformers import SentenceTransformer
        torch.set_num_threads(1)
        encoder = SentenceTransformer(model, device="cpu", trust_remote_code=True)
        encoder.max_seq_length = LENGTH
        numpy.save(output, encoder.encode(lines, batch_size=BATCH))
        return
    pooling = pathlib.Path(model).parent / "1_Pooling/config.json"
    if pooling.exists() and not json.loads(pooling.read_text()).get("pooling_mode_mean_tokens", True):
        sys.exit(f"{model}: does not pool by the mean over the tokens")
    import onnxruntime
    from tokenizers import Tokenizer
    tokenizer = Tokenizer.from_file(str(pathlib.Path(model).parent / "tokenizer.json"))
    tokenizer.enable_truncation(LENGTH)
    tokenizer.no_padding()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    names, vectors = {one.name for one in session.get_inputs()}, [None] * len(lines)
    encoded = tokenizer.encode_batch(lines)
    order = sorted(range(len(lines)), key=lambda i: len(encoded[i].ids))
    for begin in range(0, len(order), BATCH):
        rows = order[begin:begin + BATCH]
        width = max(len(encoded[i].ids) for i in rows)
        def padded(of):
            return numpy.array([of(i) + [0] * (width - len(encoded[i].ids)) for i in rows], dtype=numpy.int64)
        given = {"input_ids": padded(lambda i: encoded[i].ids), "token_type_ids": padded(lambda i: encoded[i].type_ids),
                 "attention_mask": padded(lambda i: [1] * len(encoded[i].ids))}
        hidden = session.run(None, {name: value for name, value in given.items() if name in names})[0]
        mask = given["attention_mask"][:, :, None].astype(numpy.float32)
        for row, vector in zip(rows, (hidden * mask).sum(1) / mask.sum(1)):
            vectors[row] = vector
    numpy.save(output, numpy.array(vectors))


def timed(command):
    """Seconds of the processor and the peak memory in MB, of a process and its children."""
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    errors = child.stderr.read()
    _, status, used = os.wait4(child.pid, 0)
    if status != 0:
        sys.exit(f"{' '.join(command)}: {errors.decode(errors='replace')}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss * 1024 / 1e6


def once(options, kind, model, texts, output):
    if kind.startswith("comera"):
        output = output.with_suffix(".h5")
        command = [options.comera, "embed", model, "--input", str(texts), "--output", str(output), "--overwrite",
                   "--length", str(LENGTH), "--threads", "1", "--set",
                   f"precision.compute={'bf16' if kind == 'comera-bf16' else 'fp32'}"]
    else:
        command = [sys.executable, __file__, "encode", kind, model, str(texts), str(output)]
    return timed(command), output


def read_vectors(path):
    if path.suffix == ".npy":
        return numpy.load(path)
    import h5py
    with h5py.File(path) as file:
        return file["vectors"][:]


def parameters_of(options, kind, model):
    if not kind.startswith("comera"):
        return None
    said = subprocess.run([options.comera, "inspect", model], capture_output=True, text=True, check=True).stdout
    return int(re.search(r"^ *all +([\d,]+)$", said, re.M).group(1).replace(",", ""))


def measure(options):
    os.environ["OMP_NUM_THREADS"] = "1"
    texts = Texts(options.glue)
    models = [(name, *rest.split(":", 1)) for name, rest in (one.split("=", 1) for one in options.models)]
    results = [{"model": name, "kind": kind, "texts": len(texts.places), "seconds": [], "memory": []}
               for name, kind, _ in models]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "all.txt").write_text("\n".join(texts.places) + "\n", encoding="utf-8")
        (folder / "one.txt").write_text(next(iter(texts.places)) + "\n", encoding="utf-8")
        for round in range(options.rounds):
            for (name, kind, model), result in zip(models, results):
                (start, _), _ = once(options, kind, model, folder / "one.txt", folder / "one.npy")
                (whole, memory), output = once(options, kind, model, folder / "all.txt", folder / "all.npy")
                result["seconds"].append(whole - start)
                result["memory"].append(memory)
                if round == 0:
                    result["parameters"] = parameters_of(options, kind, model)
                    result.update(texts.of(read_vectors(output)))
                print(name, json.dumps(result), file=sys.stderr)
    with options.results.open("a", encoding="utf-8") as file:
        for result in results:
            file.write(json.dumps(result) + "\n")


def print_table(options):
    groups = {}
    for line in options.results.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        groups.setdefault((re.sub(r"-\d+$", "", row["model"]), row["kind"]), []).append(row)
    print("| model | program | parameters | STS-B dev | MRR, MNLI | MRR, QQP | texts a second | MB |")
    print("|---|---|---|---|---|---|---|---|")
    for (name, kind), rows in groups.items():
        def mean(key):
            values = [row[key] for row in rows]
            spread = f" ± {statistics.stdev(values):.3f}" if len(values) > 1 else ""
            return f"{statistics.mean(values):.3f}{spread}"
        parameters = rows[0]["parameters"]
        rate = statistics.median(row["texts"] / statistics.median(row["seconds"]) for row in rows)
        memory = statistics.median(max(row["memory"]) for row in rows)
        print(f"| {name} | {kind} | {f'{parameters:,}' if parameters else '–'} | {mean('spearman')} | "
              f"{mean('mrr_mnli')} | {mean('mrr_qqp')} | {rate:,.0f} | {memory:.0f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("measure")
    one.add_argument("glue", type=pathlib.Path)
    one.add_argument("results", type=pathlib.Path)
    one.add_argument("models", nargs="+", metavar="NAME=KIND:MODEL")
    one.add_argument("--comera", default="comera")
    one.add_argument("--rounds", type=int, default=3)
    two = commands.add_parser("table")
    two.add_argument("results", type=pathlib.Path)
    three = commands.add_parser("encode", help="for measure alone")
    for argument in ("kind", "model", "texts", "output"):
        three.add_argument(argument)
    options = parser.parse_args()
    if options.command == "measure":
        measure(options)
    elif options.command == "table":
        print_table(options)
    else:
        encode(options.kind, options.model, options.texts, options.output)


if __name__ == "__main__":
    main()
