#!/usr/bin/env python3
"""Fits held-out loss over the size of a model and the steps it was trained, for `comera plan`.

    bench/fit_law.py RESULTS.jsonl ... [--write measurements/loss_law.inc]

loss = ((parameter_scale / parameters) ** ratio + token_scale / tokens) ** power (Kaplan et al., 2020, equation 1.5),
by least squares, of tensor trains (dense baselines among the results are left out). Of each run of RESULTS the first
phase counts, whose learning rate ends at 0: later ones have other sequences. Seeds of one variant are one point,
their mean. How sure the law is comes from resampled points: each draw is a law of its own. Python's standard library
only.
"""
import argparse
import json
import pathlib
import random
import statistics
import sys

DRAWS = 24
TOKENS = 2048  # of a step, unless a run says otherwise
DISTINCT = 6   # points that a fit needs
POWERS = [i / 200 for i in range(20, 121, 2)]
RATIOS = [i / 50 for i in range(10, 121)]


def points_of(paths):
    """[(parameters, tokens, loss, variant)] of runs that reached the end of their first phase."""
    found = {}
    for path in paths:
        for line in pathlib.Path(path).read_text().splitlines():
            run = json.loads(line)
            settings = dict(setting.split("=", 1) for setting in run["set"])
            if settings.get("tensorized.enabled") == "false":
                continue
            steps = int(settings.get("phase.0.steps", 0))
            ends = [loss for step, _, loss in run["curve"] if step == steps]
            if ends:
                # Runs that part after the first phase have had the same one.
                tokens = steps * int(settings.get("phase.0.tokens_per_micro_batch", TOKENS)) * int(settings.get("phase.0.micro_batches_per_step", 1))
                seeds = found.setdefault((run["parameters"], tokens), {})
                seeds.setdefault(run["seed"], (ends[0], run["variant"]))
    return [(*key, statistics.mean(loss for loss, _ in seeds.values()), next(iter(seeds.values()))[1])
            for key, seeds in sorted(found.items())]


def loss_of(law, parameters, tokens):
    parameter_scale, ratio, token_scale, power = law
    return ((parameter_scale / parameters) ** ratio + token_scale / tokens) ** power


def fit(points):
    """The law whose squared errors are least. For a given power and ratio the rest is linear in loss ** (1 / power),
    whose errors are weighed by its derivative, so that they count as errors of the loss."""
    best = None
    for power in POWERS:
        bases = [(loss ** (1 / power), power * loss ** (1 - 1 / power)) for *_, loss, _ in points]
        for ratio in RATIOS:
            aa = ab = bb = ay = by = 0.0
            for (parameters, tokens, _, _), (base, weight) in zip(points, bases):
                a, b, y = weight * (1e6 / parameters) ** ratio, weight * 1e6 / tokens, weight * base
                aa, ab, bb, ay, by = aa + a * a, ab + a * b, bb + b * b, ay + a * y, by + b * y
            determinant = aa * bb - ab * ab
            if determinant <= 1e-12 * aa * bb:
                continue
            of_size, of_tokens = (ay * bb - by * ab) / determinant, (by * aa - ay * ab) / determinant
            if of_size <= 0 or of_tokens <= 0:
                continue
            law = (1e6 * of_size ** (1 / ratio), ratio, 1e6 * of_tokens, power)
            error = sum((loss_of(law, parameters, tokens) - loss) ** 2 for parameters, tokens, loss, _ in points)
            if best is None or error < best[0]:
                best = error, law
    return best[1] if best else None


def draws_of(points):
    rng, draws = random.Random(1), []
    while len(draws) < DRAWS:
        drawn = [rng.choice(points) for _ in points]
        law = fit(drawn) if len(set(drawn)) >= DISTINCT else None
        if law:
            draws.append(law)
    return draws


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", nargs="+")
    parser.add_argument("--write", help="the C++ constants that measurements/loss_law.cpp includes")
    options = parser.parse_args()
    points = points_of(options.results)
    if len(set(points)) <= DISTINCT:
        sys.exit(f"{len(set(points))} runs of different sizes or tokens are too few for a fit: give at least {DISTINCT + 1}")
    law = fit(points)
    print("| run | parameters | million tokens | held-out loss | the law's | fitted without it |\n|---|---|---|---|---|---|")
    errors = []
    for i, (parameters, tokens, loss, variant) in enumerate(points):
        without = loss_of(fit(points[:i] + points[i + 1:]), parameters, tokens)
        errors.append(without - loss)
        print(f"| {variant} | {parameters:,} | {tokens / 1e6:.1f} | {loss:.3f} | {loss_of(law, parameters, tokens):.3f} | "
              f"{without:.3f} |")
    deviation = statistics.mean(error ** 2 for error in errors) ** 0.5
    print(f"\nloss = (({law[0]:.3g} / parameters) ^ {law[1]:.2f} + {law[2]:.3g} / tokens) ^ {law[3]:.3f}; a run that "
          f"was left out is missed by {deviation:.3f} (root mean square)")
    if options.write:
        laws = ["    {" + ", ".join(f"{value:.4g}" for value in each) + "}," for each in [law, *draws_of(points)]]
        pathlib.Path(options.write).write_text(
            f"// bench/fit_law.py wrote this, of {len(points)} points. The best law, then those of resampled points.\n"
            + "constexpr LossLaw laws[] = {\n" + "\n".join(laws) + "\n};\n"
            + f"constexpr double missed_by = {deviation:.4f};\n"
            + f"constexpr LawRange range = {{{points[0][0]}, {points[-1][0]}, {min(p[1] for p in points)}, "
              f"{max(p[1] for p in points)}, {TOKENS}}};\n")


if __name__ == "__main__":
    main()
