#!/usr/bin/env python3
"""Accuracies of fine-tuned runs, epoch by epoch, and the paired differences of their last models.

    bench/compare_runs.py --comera build/release/cli/comera --data glue/MNLI/dev_matched.tsv --label gold_label \
        --set dev_matched fp32=runs/fp32-1,runs/fp32-2 fp8=runs/fp8-1,runs/fp8-2 --plot precision.svg

The first group is what the others are compared with; runs of two groups are paired in the order given, which is
that of their seeds. Predictions are kept beside each run's last checkpoint. Prints Markdown. Python's standard
library only.
"""
import argparse
import csv
import json
import math
import pathlib
import subprocess
import sys

COLOURS = ["#222222", "#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e"]


def evaluations(run, name):
    """[(step, accuracy)] of a held-out set."""
    points = []
    for line in (run / "metrics.jsonl").read_text().splitlines():
        entry = json.loads(line)
        if name in entry.get("validation", {}):
            points.append((entry["step"], entry["validation"][name]["accuracy"]))
    return points


def predictions(options, run):
    """{line of the data: predicted class} of the run's newest checkpoint."""
    checkpoint = sorted((run / "checkpoints").glob("step-*.h5"))[-1]
    output = checkpoint.with_suffix(".predictions.tsv")
    if not output.exists():
        subprocess.run([options.comera, "predict", checkpoint, "--input", options.data, "--output", output],
                       check=True, stdout=subprocess.DEVNULL)
    with open(output, encoding="utf8", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    line, label = rows[0].index("line"), rows[0].index("label")
    return {int(row[line]): row[label] for row in rows[1:]}


def labels(options):
    with open(options.data, encoding="utf8", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    column = rows[0].index(options.label)
    return {number: row[column] for number, row in enumerate(rows[1:], start=2)}


def paired(options, base, other, right):
    """Examples, those that only one of two runs has right, and their difference with its standard error."""
    a, b = predictions(options, base), predictions(options, other)
    lines = sorted(set(a) & set(b) & set(right))
    only_a = sum(a[i] == right[i] != b[i] for i in lines)
    only_b = sum(b[i] == right[i] != a[i] for i in lines)
    count = len(lines)
    difference = (only_b - only_a) / count
    error = math.sqrt(max((only_a + only_b) / count - difference**2, 0) / count)
    return count, only_a, only_b, difference, error


def svg(groups, name):
    width, height, left, top = 640, 360, 56, 20
    curves = [(group, evaluations(run, name)) for group, runs in groups.items() for run in runs]
    steps = max(step for _, points in curves for step, _ in points)
    values = [value for _, points in curves for _, value in points]
    low, high = math.floor(min(values) * 50) / 50, math.ceil(max(values) * 50) / 50

    def place(step, value):
        return (left + (width - left - 20) * step / steps,
                top + (height - top - 40) * (high - value) / (high - low))

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
             'font-family="sans-serif" font-size="12">', f'<rect width="{width}" height="{height}" fill="white"/>']
    for tick in range(round(low * 50), round(high * 50) + 1):
        x, y = place(0, tick / 50)
        parts.append(f'<path d="M{x:.1f} {y:.1f}H{width - 20}" stroke="#ddd"/>'
                     f'<text x="{x - 6:.1f}" y="{y + 4:.1f}" text-anchor="end">{2 * tick} %</text>')
    for step in sorted({step for _, points in curves for step, _ in points}):
        x, _ = place(step, low)
        parts.append(f'<text x="{x:.1f}" y="{height - 22}" text-anchor="middle">{step}</text>')
    parts.append(f'<text x="{width / 2}" y="{height - 5}" text-anchor="middle">step; accuracy on {name}</text>')
    for at, group in enumerate(groups):
        colour = COLOURS[at % len(COLOURS)]
        for run in groups[group]:
            points = [place(step, value) for step, value in evaluations(run, name)]
            line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
            parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
            parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in points]
        parts.append(f'<text x="{left + 12}" y="{top + 14 + 16 * at}" fill="{colour}">{group}</text>')
    return "\n".join(parts + ["</svg>"]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("groups", nargs="+", metavar="NAME=RUN,RUN", help="runs of one kind, by seed")
    parser.add_argument("--comera", default="comera")
    parser.add_argument("--data", required=True, type=pathlib.Path, help="the held-out table, a TSV")
    parser.add_argument("--label", required=True, help="its column with the class")
    parser.add_argument("--set", required=True, help="what the runs call it")
    parser.add_argument("--plot", type=pathlib.Path, metavar="FILE.svg")
    options = parser.parse_args()
    groups = {}
    for group in options.groups:
        name, _, runs = group.partition("=")
        groups[name] = [pathlib.Path(run) for run in runs.split(",") if run]
        if not groups[name]:
            sys.exit(f"{group}: expected NAME=RUN,RUN")
    base = next(iter(groups))
    right = labels(options)
    steps = sorted({step for runs in groups.values() for run in runs for step, _ in evaluations(run, options.set)})
    print("| | run | " + " | ".join(f"step {step}" for step in steps) + " |")
    print("|---|---|" + "---|" * len(steps))
    for name, runs in groups.items():
        for seed, run in enumerate(runs, start=1):
            found = dict(evaluations(run, options.set))
            cells = [f"{100 * found[step]:.2f} %" if step in found else "" for step in steps]
            print(f"| {name} | {seed} | " + " | ".join(cells) + " |")
    print(f"\n| against {base} | run | examples | only {base} right | only the other right | difference |")
    print("|---|---|---|---|---|---|")
    for name, runs in groups.items():
        for seed, run in enumerate(runs, start=1):
            if name == base or seed > len(groups[base]):
                continue
            count, only_a, only_b, difference, error = paired(options, groups[base][seed - 1], run, right)
            print(f"| {name} | {seed} | {count} | {only_a} | {only_b} | "
                  f"{100 * difference:+.2f} ± {100 * error:.2f} points |")
    if options.plot:
        options.plot.write_text(svg(groups, options.set), encoding="utf8")


if __name__ == "__main__":
    main()
