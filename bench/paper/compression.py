#!/usr/bin/env python3
"""The paper's figure 16_1: a step's time over how much smaller tensor trains make the linear layers of the six-encoder,
from the recipe's ranks up to full ones, which have half as many numbers again as dense matrices.

    bench/paper/compression.py [--comera PROGRAM] [--tokens N] [--output FILE.jsonl] [--plot FILE.svg]
    bench/paper/compression.py --read FILE.jsonl [--plot FILE.svg]

Each rank is timed in turn with the dense baseline by `comera bench step`. Python's standard library only.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
from plot import draw  # pylint: disable=wrong-import-position

RECIPE = ROOT / "recipes/six_encoder_mnli.toml"
RANKS = [30, 60, 96, 192, 384, 480, 768]
LAYERS = {"attention": ([12, 8, 8], [8, 8, 12]), "ffn_up": ([12, 8, 8], [12, 16, 16]),
          "ffn_down": ([16, 16, 12], [8, 8, 12]), "head": ([12, 8, 8], [8, 8, 12])}


def product(numbers):
    result = 1
    for number in numbers:
        result *= number
    return result


def ranks_of(modes, most):
    """Of each bond: no more than either side of it can use."""
    return [min(most, product(modes[:k]), product(modes[k:])) for k in range(1, len(modes))]


def numbers_of(modes, ranks):
    ends = [1, *ranks, 1]
    return sum(ends[k] * mode * ends[k + 1] for k, mode in enumerate(modes))


def ratio_of(most):
    """How many times fewer numbers than dense matrices an encoder's six linear layers have."""
    count = {"attention": 4, "ffn_up": 1, "ffn_down": 1}
    dense = sum(n * product(LAYERS[name][0]) * product(LAYERS[name][1]) for name, n in count.items())
    trains = 0
    for name, n in count.items():
        modes = LAYERS[name][0] + LAYERS[name][1]
        trains += n * numbers_of(modes, ranks_of(modes, most))
    return dense / trains


def measure(options, most):
    command = [options.comera, "bench", "step", str(RECIPE), "--tokens", str(options.tokens), "--length", "128",
               "--repeats", str(options.repeats), "--device", options.device]
    for setting in options.set:
        command += ["--set", setting]
    for name, (inputs, outputs) in LAYERS.items():
        command += ["--set", f"tensorized.{name}.ranks={json.dumps(ranks_of(inputs + outputs, most))}"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def of(model):
        line = re.search(rf"^ +{model} +([\d.]+) ms .*?(\d+) MiB$", text, re.M)
        return float(line[1]), int(line[2])

    times = float(re.search(r"tensorized is ([\d.]+) times faster", text)[1])
    (ms, mib), (dense_ms, dense_mib) = of("tensorized"), of("dense")
    return {"rank": most, "ratio": round(ratio_of(most), 3), "ms": ms, "dense_ms": dense_ms, "mib": mib,
            "dense_mib": dense_mib, "faster": times, "tokens": options.tokens, "set": options.set,
            "machine": text.splitlines()[0]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--comera", default="comera")
    parser.add_argument("--tokens", type=int, default=4096)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--output", type=pathlib.Path)
    parser.add_argument("--read", type=pathlib.Path)
    parser.add_argument("--plot")
    options = parser.parse_args()
    results = []
    if options.read:
        results = [json.loads(line) for line in options.read.read_text().splitlines()]
    else:
        for most in RANKS:
            results.append(measure(options, most))
            print(json.dumps(results[-1]), file=sys.stderr)
            if options.output:
                with options.output.open("a") as file:
                    file.write(json.dumps(results[-1]) + "\n")
    print("| ranks up to | linear layers are smaller by | ms a step | dense baseline | faster | MiB | dense baseline |")
    print("|" + "---|" * 7)
    for each in results:
        print(f"| {each['rank']} | {each['ratio']:.2f} | {each['ms']:.0f} | {each['dense_ms']:.0f} | "
              f"{each['faster']:.2f} | {each['mib']} | {each['dense_mib']} |")
    if options.plot:
        draw(options.plot, [("tensor trains", [(1 / each["ratio"], each["ms"] / each["dense_ms"]) for each in results]),
                            ("dense baseline", [(0, 1), (max(1, *(1 / each["ratio"] for each in results)), 1)])],
             "numbers of the linear layers over the dense baseline's; time of a step over the dense baseline's")


if __name__ == "__main__":
    sys.exit(main())
