#!/usr/bin/env python3
"""Formats on the same ground (the paper's figure 17_2): from one and the same model, half a pass over MNLI in each
format, with the same data in the same order. Makes docs/guide/precision.md's table from the metrics that are checked in.

    bench/paper/formats.py [--write docs/guide/precision.md]

--write replaces what stands between <!-- formats --> and <!-- /formats -->. Python's standard library only.
"""
import argparse
import io
import json
import math
import pathlib
import statistics
import sys
import tarfile

from page import replace

ROOT = pathlib.Path(__file__).resolve().parents[2]
ARCHIVE = ROOT / "bench/results/2026-11-28-mnli-apart-metrics.tar.xz"
FORMATS = [("hf", "fp32"), ("hb", "bf16"), ("h8", "fp8, current scales"), ("hd", "fp8, delayed scales")]
SEEDS = (1, 2, 3)
# (what, of an evaluation, of the steps of training)
MEASURES = [
    ("matched, %", lambda end, _: 100 * end["dev_matched"]["accuracy"], 1),
    ("mismatched, %", lambda end, _: 100 * end["dev_mismatched"]["accuracy"], 1),
    ("loss on dev matched", lambda end, _: end["dev_matched"]["loss"], 4),
    ("training loss, last half of the steps", lambda _, steps: statistics.fmean(steps[len(steps) // 2:]), 4),
]


def read(archive):
    """{run: (last evaluation, losses of the steps)}"""
    runs = {}
    with tarfile.open(archive) as tar:
        for member in tar.getmembers():
            lines = [json.loads(line) for line in io.TextIOWrapper(tar.extractfile(member))]
            ends = [line["validation"] for line in lines if isinstance(line.get("validation"), dict)]
            steps = [line["loss"] for line in lines if "ms_per_step" in line]
            runs[pathlib.PurePath(member.name).parent.name] = (ends[-1], steps)
    return runs


def cell(values, digits):
    """Mean of paired differences ± its standard error, and each seed's."""
    error = statistics.stdev(values) / math.sqrt(len(values))
    each = ", ".join(f"{value:+.{digits}f}" for value in values)
    return f"{statistics.fmean(values):+.{digits}f} ± {error:.{digits}f} ({each})"


def table(runs):
    lines = ["| | " + " | ".join(what for what, _, _ in MEASURES) + " |", "|" + "---|" * (len(MEASURES) + 1)]
    start, name = FORMATS[0]
    own = [", ".join(f"{of(*runs[f'{start}-{seed}']):.{digits}f}" for seed in SEEDS) for _, of, digits in MEASURES]
    lines.append(f"| {name}: seeds 1, 2, 3 | " + " | ".join(own) + " |")
    for key, name in FORMATS[1:]:
        cells = []
        for _, of, digits in MEASURES:
            cells.append(cell([of(*runs[f"{key}-{seed}"]) - of(*runs[f"{start}-{seed}"]) for seed in SEEDS], digits))
        lines.append(f"| {name}, minus fp32 | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--archive", type=pathlib.Path, default=ARCHIVE)
    parser.add_argument("--write", type=pathlib.Path)
    options = parser.parse_args()
    made = table(read(options.archive))
    print(made)
    if options.write:
        replace(options.write, "formats", made)


if __name__ == "__main__":
    sys.exit(main())
