#!/usr/bin/env python3
"""Draws two plots of the loss over the time of one core from the curves that are checked in:

    bench/loss_over_hours.py

- docs/images/loss_over_minutes.svg, the README's: 256 wide, beside PyTorch;
- docs/images/loss_over_hours.svg: 384 and 768 wide, all by Muon.

Times are steps times the milliseconds that a step takes on one core of an Intel Xeon (Sapphire Rapids) in bfloat16, as
bench/results/2026-11-29-masked-language-pytorch.md and 2026-11-26-h100-second.md have them. PyTorch's dense model and
ours are the same, and so is their loss after as many steps. Python's standard library only.
"""
import json
import pathlib

from plot import draw

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = [ROOT / "bench/results" / name
           for name in ("2026-11-26-h100-training.jsonl", "2026-11-26-h100-second-training.jsonl")]

SMALL = ROOT / "bench/results/2026-11-25-hour.jsonl"
# variant: (label, milliseconds a step) of each line
SMALL_VARIANTS = {
    "tensor trains, ranks 32": [("tensor trains (0.9 M)", 43)],
    "dense twin, AdamW at 1e-3": [("dense baseline, AdamW (5.3 M)", 60.5), ("PyTorch, dense, AdamW (5.3 M)", 177)],
}

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


def read(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def draw_minutes():
    curves = []
    for run in read(SMALL):
        for label, milliseconds in SMALL_VARIANTS.get(run["variant"], []):
            points = [(step * milliseconds / 6e4, loss) for step, _, loss in run["curve"] if loss <= 4.2]
            curves.append((label, points))
    draw(ROOT / "docs/images/loss_over_minutes.svg", curves,
         "held-out loss (nats) over minutes of one core; 4 layers, 256 wide; one line a seed")


def main():
    draw_minutes()
    runs = [run for path in RESULTS for run in read(path)]
    curves = []
    for variant, (label, *_) in VARIANTS.items():
        for run in runs:
            if run["variant"] == variant:
                points = [(hours(variant, step), loss) for step, _, loss in run["curve"] if loss <= 4.2]
                curves.append((label, points))
    draw(ROOT / "docs/images/loss_over_hours.svg", curves, "held-out loss (nats) over hours of one core; one line a seed")


if __name__ == "__main__":
    main()
