#!/usr/bin/env python3
"""Draws docs/images/loss_over_hours.svg, the README's plot, from the curves that are checked in.

    bench/loss_over_hours.py

Hours are steps times the milliseconds that a step takes on one core of an Intel Xeon (Sapphire Rapids) in bfloat16, as
bench/results/2026-11-26-h100-second.md has them. Python's standard library only.
"""
import json
import pathlib

from plot import draw

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = [ROOT / "bench/results" / name
           for name in ("2026-11-26-h100-training.jsonl", "2026-11-26-h100-second-training.jsonl")]

# variant: label, milliseconds a step in the first phase, its steps, milliseconds a step in the second phase
VARIANTS = {
    "h768": ("768 wide, tensor trains", 551, 10900, 636),
    "dense768": ("768 wide, dense", 5780, 1350, 5680),
    "small-control": ("384 wide, tensor trains", 280, 20800, 341),
    "dense": ("384 wide, dense", 938, 6150, 1017),
}


def hours(variant, step):
    _, first, steps, second = VARIANTS[variant]
    return (min(step, steps) * first + max(0, step - steps) * second) / 3.6e6


def main():
    runs = [json.loads(line) for path in RESULTS for line in path.read_text(encoding="utf-8").splitlines()]
    curves = []
    for variant, (label, *_) in VARIANTS.items():
        for run in runs:
            if run["variant"] == variant:
                points = [(hours(variant, step), loss) for step, _, loss in run["curve"] if loss <= 4.2]
                curves.append((label, points))
    draw(ROOT / "docs/images/loss_over_hours.svg", curves, "held-out loss (nats) over hours of one core; one line a seed")


if __name__ == "__main__":
    main()
