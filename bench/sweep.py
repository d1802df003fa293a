#!/usr/bin/env python3
"""Trains variants of a recipe with several seeds each, and compares what they have learnt.

    bench/sweep.py train --comera build/release/cli/comera --recipe bench/learning.toml --folder /tmp/sweep \
        --data shards --tokenizer tokenizer.model --seeds 1-5 --results results.jsonl variants.txt
    bench/sweep.py train --clicks --comera build/release/cli/comera --recipe bench/clicks.toml ...
    bench/sweep.py table results.jsonl ... --base NAME [--minutes | --ms NAME=MS[,STEP:MS...] ...] [--plot losses.svg]

A line of variants.txt is a name and the recipe's keys that it changes: `relative model.positions='relative'`; what
follows # is not read. Results are lines of JSON, one for each run that ended; what is there already is not trained
again, and a run that was interrupted goes on where it was. Runs take turns by seed, so that an early stop leaves
complete seeds of all variants. Python's standard library only.
"""
import argparse
import json
import math
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

from plot import draw


def read_variants(path):
    """[(name, [key=value])] in the order of the file."""
    variants = []
    for line in pathlib.Path(path).read_text().splitlines():
        words = line.split("#")[0].split()
        if words:
            variants.append((words[0], words[1:]))
    return variants


def read_results(*paths):
    files = [pathlib.Path(path) for path in paths]
    return [json.loads(line) for file in files if file.exists() for line in file.read_text().splitlines()]


def seeds_of(text):
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def result_of(run):
    """The curve of a run's evaluations and what it cost."""
    curve, last, seconds = [], {}, 0.0
    for line in (run / "metrics.jsonl").read_text().splitlines():
        entry = json.loads(line)
        if "ms_per_step" in entry:
            seconds += entry["ms_per_step"] / 1e3 * (entry["step"] - last.get("step", 0))
            last = entry
        if "validation_loss" in entry:
            curve.append([entry["step"], round(seconds, 2), round(entry["validation_loss"], 4)])
            last = {**last, **{key: entry[key] for key in ("validation_loss", "unigram_loss",
                                                           "validation_normalised_entropy", "validation_auc")
                               if key in entry}}
    scores = {name: round(last[key], 6) for name, key in (("unigram", "unigram_loss"), ("auc", "validation_auc"),
                                                          ("normalised_entropy", "validation_normalised_entropy"))
              if key in last}
    return {"loss": last["validation_loss"], **scores, "steps": last["step"], "parameters": last["parameters"],
            "skipped": last.get("skipped_steps", 0), "seconds": round(seconds, 1), "curve": curve}


def train_one(options, name, settings, seed):
    run = pathlib.Path(options.folder) / f"{name}-{seed}"
    command = [options.comera, *(["clicks", "train"] if options.clicks else ["pretrain"]), options.recipe, "--output", run, "--resume", "auto"]
    data = [f"data.train='{options.data}'", f"data.validation='{options.data}'"] if options.data else []
    tokenizer = [f"data.tokenizer='{options.tokenizer}'"] if options.tokenizer else []
    for setting in [*tokenizer, *data, f"run.seed={seed}", f"run.threads={options.threads}", *options.set, *settings]:
        command += ["--set", setting]
    run.parent.mkdir(parents=True, exist_ok=True)
    with open(f"{run}.log", "a", encoding="utf8") as log:
        ended = subprocess.run(command, stdout=log, stderr=log, check=False)
    if ended.returncode != 0:
        last = pathlib.Path(f"{run}.log").read_text().splitlines()[-1:]
        return {"error": f"exit {ended.returncode}: {' '.join(last)[:200]}"}
    if "\nstopped at step " in pathlib.Path(f"{run}.log").read_text()[-2000:]:
        sys.exit(f"{run}: stopped before its end; the same command goes on with it")
    result = result_of(run)
    shutil.rmtree(run / "checkpoints", ignore_errors=True)
    return result


def train(options):
    variants = read_variants(options.variants)
    done = {(entry["variant"], entry["seed"]) for entry in read_results(options.results) if "error" not in entry}
    for seed in seeds_of(options.seeds):
        for name, settings in variants:
            if (name, seed) in done:
                continue
            result = {"variant": name, "seed": seed, "set": options.set + settings, "threads": options.threads,
                      **train_one(options, name, settings, seed), "ended": time.strftime("%Y-%m-%dT%H:%M:%S")}
            with open(options.results, "a", encoding="utf8") as file:
                file.write(json.dumps(result) + "\n")
            print(f"{name} {seed}: {result.get('loss', result.get('error'))}", flush=True)


def mean_and_deviation(values):
    deviation = f" ± {statistics.stdev(values):.3f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.3f}{deviation}"


def seconds_of(runs):
    known = [entry["seconds"] for entry in runs if entry.get("seconds") is not None]
    return f"{statistics.median(known):.0f}" if known else "–"


def table(options):
    results = {}
    for entry in read_results(*options.results):
        results.setdefault(entry["variant"], {})[entry["seed"]] = entry
    order = sorted(results, key=lambda name: statistics.mean(
        [entry.get("loss", math.inf) for entry in results[name].values()]))
    base = results.get(options.base, {})
    print("| variant | seeds | held-out loss | worst | below unigram | on the plateau | against "
          f"{options.base or 'nothing'} | s a run |\n|---|---|---|---|---|---|---|---|")
    for name in order:
        runs = [entry for entry in results[name].values() if "loss" in entry]
        if not runs:
            print(f"| {name} | {len(results[name])} | failed: {next(iter(results[name].values()))['error']} |||||")
            continue
        losses = [entry["loss"] for entry in runs]
        # Of clicks: below guessing the rate of clicks.
        gains = [entry["unigram"] - entry["loss"] if "unigram" in entry
                 else entry["loss"] / entry["normalised_entropy"] - entry["loss"] for entry in runs]
        pairs = [entry["loss"] - base[entry["seed"]]["loss"] for entry in runs
                 if "loss" in base.get(entry["seed"], {}) and name != options.base]
        paired = "" if not pairs else (
            f"{statistics.mean(pairs):+.3f}" +
            (f" ± {statistics.stdev(pairs) / math.sqrt(len(pairs)):.3f}" if len(pairs) > 1 else ""))
        print(f"| {name} | {len(runs)} | {mean_and_deviation(losses)} | {max(losses):.3f} | "
              f"{statistics.mean(gains):.3f} | {sum(gain < options.plateau for gain in gains)} | {paired} | "
              f"{seconds_of(runs)} |")
    if options.plot:
        plot(options, {name: results[name] for name in order})


def minutes_of(milliseconds, steps):
    """Of so many steps; `930,6150:1010` is 930 ms a step, and 1010 from step 6,150 on."""
    first, *later = milliseconds.split(",")
    pieces = [(0, float(first)), *((int(at), float(ms)) for at, ms in (piece.split(":") for piece in later))]
    ends = [at for at, _ in pieces[1:]] + [math.inf]
    return sum(ms * max(0, min(steps, end) - at) for (at, ms), end in zip(pieces, ends)) / 60000


def plot(options, results):
    """Held-out loss of each run over its steps, minutes or hours; one colour a variant."""
    milliseconds = dict(each.split("=") for each in options.ms)
    if milliseconds:
        results = {name: results[name] for name in milliseconds}
    in_minutes = options.minutes or bool(milliseconds)

    def x_of(name, point):
        if milliseconds:
            return minutes_of(milliseconds[name], point[0])
        return point[1] / 60 if options.minutes else point[0]

    curves = [(index, [(x_of(name, point), point[2]) for point in entry["curve"]])
              for index, name in enumerate(results) for entry in results[name].values() if entry.get("curve")]
    in_hours = in_minutes and max(x for _, curve in curves for x, _ in curve) > 100
    if in_hours:
        curves = [(index, [(x / 60, y) for x, y in curve]) for index, curve in curves]
    if options.most:
        curves = [(index, [(x, y) for x, y in curve if y <= options.most]) for index, curve in curves]
    labels = dict(each.split("=") for each in options.label)
    names = [labels.get(name, name) for name in results]
    draw(options.plot, [(names[index], curve) for index, curve in curves],
         f'{"hours" if in_hours else "minutes" if in_minutes else "steps"}; held-out loss, nats')


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    training = commands.add_parser("train")
    for option in ("--comera", "--recipe", "--folder", "--results"):
        training.add_argument(option, required=True)
    training.add_argument("--clicks", action="store_true", help="the recipe is a click model's")
    training.add_argument("--data", help="folder of shards, where the recipe does not name its own")
    training.add_argument("--tokenizer", help="where the recipe does not name its own")
    training.add_argument("--seeds", default="1-3")
    training.add_argument("--threads", type=int, default=1)
    training.add_argument("--set", action="append", default=[], help="of all variants")
    training.add_argument("variants")
    comparing = commands.add_parser("table")
    comparing.add_argument("results", nargs="+")
    comparing.add_argument("--base")
    comparing.add_argument("--plateau", type=float, default=0.1, help="nats below unigram that are none")
    comparing.add_argument("--plot")
    comparing.add_argument("--minutes", action="store_true", help="the plot's axis, by the runs' own clocks")
    comparing.add_argument("--ms", action="append", default=[], metavar="VARIANT=MS[,STEP:MS]",
                           help="the plot's axis in minutes or hours of so many milliseconds a step (from a step on "
                                "of others), of these variants only: for runs that shared the machine")
    comparing.add_argument("--most", type=float, help="the plot leaves out points with larger losses")
    comparing.add_argument("--label", action="append", default=[], metavar="VARIANT=TEXT", help="in the plot")
    options = parser.parse_args()
    {"train": train, "table": table}[options.command](options)


if __name__ == "__main__":
    sys.exit(main())
