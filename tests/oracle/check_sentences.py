#!/usr/bin/env python3
"""Compares exports for sentence-transformers with comera's own vectors.

    python3 tests/oracle/check_sentences.py --program build/release/cli/comera --texts TEXTS MODEL... [--work FOLDER]

MODEL is a checkpoint or a run's folder. Each is exported with --sentence-vectors, as it is and, if it has any, with
its tensor trains; the first 100 lines of TEXTS go through both programs. Loading may print nothing, and no number of a
vector may differ by more than 1e-4. Needs sentence-transformers.
"""
import argparse
import contextlib
import io
import json
import logging
import pathlib
import subprocess
import sys
import tempfile
import warnings

from sentence_transformers import SentenceTransformer

LINES = 100
TOLERANCE = 1e-4


def own_vectors(program, model, texts, work):
    output = work / "own.jsonl"
    subprocess.run([program, "embed", model, "--input", texts, "--normalize", "--overwrite", "--output", output,
                    "--set", "precision.compute=fp32"], check=True, capture_output=True)
    return [json.loads(line)["vector"] for line in output.read_text().splitlines()]


def their_vectors(folder, texts):
    said = io.StringIO()
    handler = logging.StreamHandler(said)
    loggers = [logging.getLogger(name) for name in ("transformers", "sentence_transformers")]
    for logger in loggers:
        logger.addHandler(handler)
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()) as errors:
        warnings.simplefilter("error")
        model = SentenceTransformer(str(folder), device="cpu", trust_remote_code=True)
        vectors = model.encode(texts, batch_size=16, show_progress_bar=False)
    for logger in loggers:
        logger.removeHandler(handler)
    words = said.getvalue() + "".join(line for line in errors.getvalue().splitlines() if "Loading weights" not in line)
    return vectors, words.strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--texts", required=True)
    parser.add_argument("--work")
    parser.add_argument("models", nargs="+")
    arguments = parser.parse_args()
    work = pathlib.Path(arguments.work or tempfile.mkdtemp())
    work.mkdir(parents=True, exist_ok=True)
    # Names of special pieces become those pieces in the libraries alone.
    lines = [line for line in pathlib.Path(arguments.texts).read_text().splitlines()
             if line.strip() and not any(name in line for name in ("[MASK]", "[CLS]", "[SEP]", "[PAD]", "[UNK]"))][:LINES]
    texts = work / "texts.txt"
    texts.write_text("\n".join(lines) + "\n")
    failed = 0
    for number, model in enumerate(arguments.models):
        own = own_vectors(arguments.program, model, texts, work)
        for form in ([], ["--tensor-trains"]):
            folder = work / f"{number}{''.join(form)}"
            done = subprocess.run([arguments.program, "export", model, "--to", folder, "--sentence-vectors", "--overwrite",
                                   *form], capture_output=True, text=True)
            if done.returncode:
                print(f"{model} {' '.join(form)}: not exported: {done.stderr.strip()}")
                failed += not form
                continue
            vectors, words = their_vectors(folder, lines)
            worst = max(abs(a - b) for ours, theirs in zip(own, vectors) for a, b in zip(ours, theirs))
            kind = json.loads((folder / "config.json").read_text())["model_type"]
            good = worst < TOLERANCE and not words and len(own) == len(vectors)
            failed += not good
            print(f"{model} {' '.join(form)}: {kind}, {len(vectors)} vectors, largest difference {worst:.1e}"
                  f"{', says: ' + words if words else ''}{'' if good else ', FAILED'}")
    sys.exit(1 if failed else 0)


main()
