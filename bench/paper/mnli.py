#!/usr/bin/env python3
"""The paper's experiment on MNLI (table 13; figures 7_1 and 17_2's kind of curve): makes docs/lab/results.md's table and
its plots from the metrics that are checked in.

    bench/paper/mnli.py [--write docs/lab/results.md] [--early early.svg] [--late late.svg]

--write replaces what stands between <!-- mnli --> and <!-- /mnli -->. Python's standard library only.
"""
import argparse
import io
import json
import pathlib
import sys
import tarfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
from page import replace  # pylint: disable=wrong-import-position
from plot import draw  # pylint: disable=wrong-import-position

ARCHIVES = [ROOT / "bench/results" / name
            for name in ("2026-11-26-h100-second-metrics.tar.xz", "2026-11-27-h200-metrics.tar.xz",
                         "2026-11-27-mnli-apart-metrics.tar.xz", "2026-11-28-mnli-apart-metrics.tar.xz",
                         "2026-12-02-mnli-diagonal-metrics.tar.xz")]

# (run, what it is, it begins with) in the order of the table.
RUNS = [
    ("a-early", "the paper's recipe, early stage", None),
    ("a-control", "without pruning (control)", "a-early"),
    ("a-late-0.8", "late stage to 0.8", "a-early"),
    ("a-late-0.5", "late stage to 0.5", "a-early"),
    ("a-late-0.2", "late stage to 0.2", "a-early"),
    ("a-paper", "preset `paper` to 0.2", "a-early"),
    ("a-reference", "preset `reference` to 0.2", "a-early"),
    ("b-early", "our recipe, early stage", None),
    ("b-control", "without pruning (control)", "b-early"),
    ("b-late-0.2", "late stage to 0.2", "b-early"),
    ("e-2", "our recipe, short, seed 2", None),
    ("e-2-control", "without pruning (control; stopped)", "e-2"),
    ("e-2-0.2", "late stage to 0.2", "e-2"),
    ("e-3", "our recipe, short, seed 3", None),
    ("again-e-2", "our recipe, short, seed 2, WordPiece", None),
    ("again-e-3", "the same, seed 3", None),
    ("g-1", "texts apart, seed 1, WordPiece", None),
    ("ac-1", "without pruning (control)", "g-1"),
    ("al-1", "late stage to 0.2", "g-1"),
    ("g-2", "texts apart, seed 2", None),
    ("ac-2", "without pruning (control)", "g-2"),
    ("al-2", "late stage to 0.2", "g-2"),
    ("g-3", "texts apart, seed 3", None),
    ("ac-3", "without pruning (control)", "g-3"),
    ("al-3", "late stage to 0.2", "g-3"),
    ("gd-1", "texts apart, a diagonal beside the pooler's train, seed 1", None),
    ("gd-2", "the same, seed 2", None),
    ("gd-3", "the same, seed 3", None),
    ("j-1", "in one sequence, falling rates, seed 1, WordPiece", None),
    ("j-2", "the same, seed 2", None),
    ("j-3", "the same, seed 3", None),
    ("l1-1", "texts apart, one block instead of six, seed 1", None),
    ("l1-2", "the same, seed 2", None),
    ("l1-3", "the same, seed 3", None),
    ("l1d-1", "one block, a diagonal beside the pooler's train, seed 1", None),
    ("l1d-2", "the same, seed 2", None),
    ("l1d-3", "the same, seed 3", None),
    ("s128-3e3", "texts apart, a small dense model: 2 blocks of 128 (AdamW 1e-3, Muon 3e-3), seed 1", None),
    ("s128-2", "the same, seed 2", None),
    ("s128-3", "the same, seed 3", None),
    ("s32-std", "texts apart, a small dense model: 4 blocks of 32 (3e-3 both), seed 1", None),
    ("s32-2", "the same, seed 2", None),
    ("s32-3", "the same, seed 3", None),
    ("c-5e-5", "dense baseline of the paper's recipe (stopped)", None),
    ("dense-a", "the same, WordPiece (stopped)", None),
    ("dense-b", "dense baseline of our recipe, WordPiece (stopped)", None),
    ("dense-b-low", "the same, rates of 2e-4 (stopped)", None),
]


def read(archives):
    """{run: (evaluations, last line of training)}"""
    runs = {}
    for archive in archives:
        runs.update(read_one(archive))
    return runs


def read_one(archive):
    runs = {}
    with tarfile.open(archive) as tar:
        for member in tar.getmembers():
            if not member.name.endswith("metrics.jsonl"):
                continue
            lines = [json.loads(line) for line in io.TextIOWrapper(tar.extractfile(member))]
            evaluations = [line for line in lines if isinstance(line.get("validation"), dict)]
            trained = [line for line in lines if "ms_per_step" in line]
            if evaluations and trained:  # all evaluations come after whole passes, the first after one
                runs[pathlib.PurePath(member.name).parent.name] = (evaluations, trained[-1])
    return runs


def passes(runs, name, evaluation):
    return evaluation["step"] / runs[name][0][0]["step"]


def percent(evaluation, split):
    return 100 * evaluation["validation"][split]["accuracy"]


def row(runs, name, what, start):
    evaluations, last = runs[name]
    end = evaluations[-1]
    best = max(evaluations, key=lambda each: percent(each, "dev_matched"))
    ranks = last.get("ranks")
    # A late stage's S is of the whole model before its early stage: its target is a share of what it began with.
    size = f"{ranks['size']:.3f}" if ranks else "1"
    began = runs[start][1]["ranks"]["size"] if start else None
    share = f" ({ranks['size'] / began:.2f})" if ranks and began else ""
    return (f"| {'↳ ' if start else ''}{what} | {round(passes(runs, name, end))} | {percent(end, 'dev_matched'):.1f} | "
            f"{percent(end, 'dev_mismatched'):.1f} | {percent(best, 'dev_matched'):.1f} ({round(passes(runs, name, best))}) | "
            f"{end['validation']['dev_matched']['loss']:.3f} | {size}{share} | "
            f"{ranks['removed'] if ranks else '–'} | {last['parameters']:,} | {last['parameters'] * 4 / 1e6:.2f} | "
            f"{last['compression']:.0f} |")


def table(runs):
    lines = ["| | passes | matched, % | mismatched, % | best matched (pass) | matched loss | S / S_init (of where it began) "
             "| layers removed | parameters | MB | times smaller |", "|" + "---|" * 11]
    return "\n".join(lines + [row(runs, *run) for run in RUNS])


def curves(runs, names):
    labels = {name: what.replace("`", "") for name, what, _ in RUNS}
    return [(labels[name], [(passes(runs, name, each), percent(each, "dev_matched"))
                                 for each in runs[name][0]]) for name in names]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--archive", action="append")
    parser.add_argument("--write", type=pathlib.Path)
    parser.add_argument("--early")
    parser.add_argument("--late")
    options = parser.parse_args()
    runs = read(options.archive or ARCHIVES)
    made = table(runs)
    print(made)
    if options.write:
        replace(options.write, "mnli", made)
    title = "passes over the training set; dev matched, %"
    if options.early:
        names = ["a-early", "b-early", "again-e-2", "g-1", "g-2", "g-3", "dense-a", "dense-b"]
        draw(options.early, curves(runs, names), title)
    if options.late:
        draw(options.late, curves(runs, ["a-control", "a-late-0.8", "a-late-0.5", "a-late-0.2", "a-paper", "a-reference"]),
             f"{title}, after the early stage of 20")


if __name__ == "__main__":
    sys.exit(main())
