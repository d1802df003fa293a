#!/usr/bin/env python3
"""Steps of one process alone, of two jobs of one process beside each other, of two processes on one machine, and of two processes
on hosts with a link between them.

Each process has one thread and one pack of a step, so that all steps would take the same time if the processes had memory
and caches of their own, came together, and sums cost nothing. Two jobs beside each other, which exchange nothing,
show what the first is worth; how long processes wait for each other, and how long the one that comes last still waits
for sums, are in the metrics of a run. Kinds of runs take turns, since a machine's speed may drift. Run it on a
machine that does nothing else; the link needs root (scripts/two_hosts.sh).

  bench/scaling.py --comera build/release/cli/comera --rate 1gbit --rounds 12 --steps 5 \
      RECIPE -- --set data.train=shards --set data.tokenizer=tokenizer.model
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODELS = {"tensor trains": [], "dense": ["--set", "tensorized.enabled=false"]}
ALONE, APART, MACHINE = "one process", "two jobs beside each other", "two processes, one machine"


def steps_of(folder):
    """Milliseconds of all steps but the first: in all, waiting for sums, waiting for other processes."""
    lines = [json.loads(line) for line in open(folder / "metrics.jsonl", encoding="utf-8")]
    waits = [(line["ms_per_step"], line.get("waiting_ms", {"sums": 0, "processes": 0}))
             for line in lines if "ms_per_step" in line]
    return [(step, waiting["sums"], waiting["processes"]) for step, waiting in waits[1:]]


def launcher(place, rate):
    if place in (ALONE, APART):
        return []
    if place == MACHINE:
        return ["mpirun", "-np", "2", "--bind-to", "none", "--oversubscribe"]
    return [str(ROOT / "scripts/two_hosts.sh"), "--rate", rate]


def run(commands):
    """All at the same time."""
    jobs = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            for command in commands]
    for job, command in zip(jobs, commands):
        said = job.communicate()[0]
        if job.returncode != 0:
            raise SystemExit(f"{' '.join(command)}\n{said}")


def of_middle_half(values, digits=0):
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return f"{middle:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe")
    parser.add_argument("--comera", default=str(ROOT / "build/release/cli/comera"))
    parser.add_argument("--command", default="pretrain", choices=["pretrain", "finetune"])
    parser.add_argument("--rate", default="1gbit")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--only", choices=MODELS, help="one of the models: a dense step takes ten times as long")
    parser.add_argument("settings", nargs=argparse.REMAINDER, help="after --: options for comera")
    arguments = parser.parse_args()
    settings = [word for word in arguments.settings if word != "--"]
    os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    link = f"two processes, {arguments.rate}"
    places = [ALONE, APART, MACHINE, link]
    models = {name: options for name, options in MODELS.items() if arguments.only in (None, name)}
    times = {(model, place): [] for model in models for place in places}
    for turn in range(arguments.rounds):
        for model, options in models.items():
            for place in places[turn % 4:] + places[:turn % 4]:
                with tempfile.TemporaryDirectory() as folder:
                    outputs = [pathlib.Path(folder) / str(job) for job in range(2 if place == APART else 1)]
                    packs = 1 if place in (ALONE, APART) else 2
                    commands = []
                    for output in outputs:
                        command = launcher(place, arguments.rate) + [
                            arguments.comera, arguments.command, arguments.recipe, "--output", str(output),
                            *settings, *options]
                        for setting in (f"phase.0.steps={arguments.steps}", f"phase.0.micro_batches_per_step={packs}",
                                        "phase.0.warmup_steps=0", "run.threads=1", "run.log_interval=1",
                                        "run.checkpoint_interval=0", "run.checkpoint_minutes=0",
                                        "run.evaluation_interval=0"):
                            command += ["--set", setting]
                        commands.append(command)
                    run(commands)
                    for output in outputs:
                        times[model, place] += steps_of(output)
    print("Medians, and in brackets the middle half, of all steps.\n")
    print("| model | | step, ms | waiting for sums, ms | waiting for the other process, ms | sums lose |")
    print("|---|---|---|---|---|---|")
    for model in models:
        for place in places:
            step, sums, processes = zip(*times[model, place])
            row = [of_middle_half(step)]
            if place not in (ALONE, APART):
                lost = [100 * of_sums / (of_step - of_sums) for of_step, of_sums in zip(step, sums)]
                row += [of_middle_half(sums), of_middle_half(processes), of_middle_half(lost, 1) + " %"]
            print(f"| {model} | {place} | " + " | ".join(row + [""] * (4 - len(row))) + " |")


if __name__ == "__main__":
    main()
