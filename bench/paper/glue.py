#!/usr/bin/env python3
"""GLUE's tasks fine-tuned from pretrained weights and from random ones: makes the table of docs/guide/finetuning.md from
the numbers that are checked in.

    bench/paper/glue.py --collect NAME=FOLDER[:TASK,...] [...] --output FILE.jsonl
    bench/paper/glue.py --read FILE.jsonl [--models NAME ...] [--write docs/guide/finetuning.md]

--collect takes from the folders that `comera glue` wrote a line for each run: model, start, task, seed, settings and
numbers; several folders may have one NAME. --models: these alone. --write replaces what stands between <!-- glue --> and <!-- /glue -->.
Python's standard library only.
"""
import argparse
import json
import math
import pathlib
import sys
import tomllib

from page import replace

TASKS = ["cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte", "wnli"]
TITLES = {"cola": "CoLA, Matthews", "sst2": "SST-2, accuracy", "mrpc": "MRPC, F1 and accuracy",
          "stsb": "STS-B, Pearson and Spearman", "qqp": "QQP, F1 and accuracy",
          "mnli": "MNLI, matched and mismatched", "qnli": "QNLI, accuracy", "rte": "RTE, accuracy",
          "wnli": "WNLI, accuracy"}
# On the test sets (Turc et al., 2019): BERT-Tiny, 4.4 million numbers, and BERT-Mini, 11.2 million.
PUBLISHED = {"BERT-Tiny": {"cola": [0.0], "sst2": [83.2], "mrpc": [81.1, 71.1], "stsb": [74.3, 73.6],
                           "qqp": [62.2, 83.4], "mnli": [70.2, 70.3], "qnli": [81.5], "rte": [57.2],
                           "wnli": [62.3]},
             "BERT-Mini": {"cola": [0.0], "sst2": [85.9], "mrpc": [81.1, 71.8], "stsb": [75.4, 73.3],
                           "qqp": [66.4, 86.2], "mnli": [74.8, 74.3], "qnli": [84.1], "rte": [57.9],
                           "wnli": [62.3]}}
# What one answer for all examples has on these validation sets, the one of the more frequent class.
MAJORITY = {"cola": [0.0], "sst2": [50.9], "mrpc": [81.2, 68.4], "stsb": [0.0, 0.0], "qqp": [0.0, 62.1],
            "mnli": [35.4, 35.2], "rte": [52.7], "wnli": [56.3]}


def collect(names):
    for text in names:
        name, _, place = text.partition("=")
        folder, _, only = place.partition(":")
        glue = json.loads((pathlib.Path(folder) / "glue.json").read_text(encoding="utf-8"))
        for task in glue["tasks"]:
            if only and task["task"] not in only.split(","):
                continue
            recipe = tomllib.loads(task["recipe"])
            phase = recipe["phase"][0]
            for seed in task["seeds"]:
                yield {"model": name, "start": "random" if glue["scratch"] else "pretrained", "task": task["task"],
                       "pairs": recipe["model"]["pairs"], "pooling": recipe["model"]["pooling"],
                       "rate": phase["learning_rate"]["other"], "epochs": phase.get("epochs"),
                       "metrics": [number["metric"] for number in task["numbers"]], **seed}


def mean_and_deviation(values):
    mean = sum(values) / len(values)
    if len(values) < 2:
        return mean, None
    return mean, math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1))


def with_deviation(values):
    """Of values in per cent, one for each seed."""
    mean, deviation = mean_and_deviation(values)
    return f"{mean:.1f}" if deviation is None else f"{mean:.1f} ± {deviation:.1f}"


def score(run):
    """As the benchmark counts it: the mean of a task's numbers, in per cent."""
    return 100 * sum(run["numbers"]) / len(run["numbers"])


class Runs:
    def __init__(self, lines, models):
        for line in lines:  # results that are checked in have the older name
            line["model"] = line["model"].replace("dense twin", "dense baseline")
        self.models = models or list(dict.fromkeys(line["model"] for line in lines))
        self.lines = [line for line in lines if line["model"] in self.models]

    def of(self, model, start, task):
        return sorted((line for line in self.lines
                       if (line["model"], line["start"], line["task"]) == (model, start, task)),
                      key=lambda line: line["seed"])

    def cell(self, model, start, task):
        runs = self.of(model, start, task)
        if not runs:
            return "–"
        return "; ".join(with_deviation([100 * run["numbers"][i] for run in runs])
                         for i in range(len(runs[0]["numbers"])))

    def gain(self, model, task):
        """Pretrained minus random, seed by seed, with the error of their mean."""
        pretrained = {run["seed"]: score(run) for run in self.of(model, "pretrained", task)}
        random = {run["seed"]: score(run) for run in self.of(model, "random", task)}
        both = [pretrained[seed] - random[seed] for seed in pretrained if seed in random]
        if not both:
            return "–"
        mean, deviation = mean_and_deviation(both)
        error = "" if deviation is None else f" ± {deviation / math.sqrt(len(both)):.1f}"
        return f"{mean:+.1f}{error}"

    def average(self, model, start):
        """Over the tasks that every model has, without WNLI."""
        tasks = [task for task in TASKS if task != "wnli" and
                 all(self.of(m, s, task) for m in self.models for s in ("pretrained", "random"))]
        scores = [mean_and_deviation([score(run) for run in self.of(model, start, task)])[0] for task in tasks]
        return (sum(scores) / len(scores), tasks) if scores else (None, [])


def numbers(scores):
    return "; ".join(f"{value:.1f}" for value in scores) if scores else "–"


def average_of(scores, tasks):
    if not tasks or any(task not in scores for task in tasks):
        return "–"
    return f"{sum(sum(scores[task]) / len(scores[task]) for task in tasks) / len(tasks):.1f}"


def table(runs):
    head = ["task", "seeds", "one answer for all"]
    for model in runs.models:
        head += [f"{model}, random", f"{model}, pretrained", "difference"]
    lines = [head + [f"{name}, test set" for name in PUBLISHED], ["---"] * (len(head) + len(PUBLISHED))]
    for task in TASKS:
        counts = [len(runs.of(model, start, task)) for model in runs.models for start in ("random", "pretrained")]
        if not any(counts):
            continue
        counts = sorted({count for count in counts if count > 0})
        row = [TITLES[task], " or ".join(str(count) for count in counts), numbers(MAJORITY.get(task))]
        for model in runs.models:
            row += [runs.cell(model, "random", task), runs.cell(model, "pretrained", task), runs.gain(model, task)]
        lines.append(row + [numbers(scores[task]) for scores in PUBLISHED.values()])
    tasks = runs.average(runs.models[0], "random")[1]
    row = ["**average**", "", average_of(MAJORITY, tasks)]
    for model in runs.models:
        averages = {}
        for start in ("random", "pretrained"):
            averages[start] = runs.average(model, start)[0]
        if not tasks:
            row += ["–"] * 3
            continue
        row += [f"{averages['random']:.1f}", f"**{averages['pretrained']:.1f}**",
                f"{averages['pretrained'] - averages['random']:+.1f}"]
    lines.append(row + [average_of(scores, tasks) for scores in PUBLISHED.values()])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--collect", nargs="+", metavar="NAME=FOLDER")
    parser.add_argument("--output", type=pathlib.Path)
    parser.add_argument("--read", type=pathlib.Path)
    parser.add_argument("--models", nargs="+")
    parser.add_argument("--write", type=pathlib.Path)
    options = parser.parse_args()
    if options.collect:
        if not options.output:
            parser.error("--collect needs --output FILE.jsonl")
        lines = list(collect(options.collect))
        keys = [(line["model"], line["start"], line["task"], line["seed"]) for line in lines]
        if len(set(keys)) < len(keys):
            sys.exit("a run of one model, start, task and seed is in two folders")
        options.output.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    elif options.read:
        with options.read.open(encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
    else:
        parser.error("one of --collect and --read is needed")
    text = table(Runs(lines, options.models))
    if options.write:
        replace(options.write, "glue", text)
    else:
        print(text)


if __name__ == "__main__":
    main()
