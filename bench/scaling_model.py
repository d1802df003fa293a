#!/usr/bin/env python3
"""What summing gradients costs on many GPUs, by a model: prints a table in Markdown.

A ring of R processes sends 2 (R - 1) / R times the bytes of a gradient through each link, in 2 (R - 1) steps (Thakur,
Rabenseifner and Gropp, 2005); a tree sends about twice the bytes in 2 log2 R steps. NCCL takes the quicker one, and
so does this. Within a node of eight GPUs sums go over NVLink, between nodes over one InfiniBand adapter for each
GPU, on an eighth of the gradient each. Nothing is hidden behind the backward pass here: that can only help.

  bench/scaling_model.py --bytes "tensor trains=5.9e6" --bytes dense=268e6
"""

import argparse
import math

# Bytes per second and direction that NCCL reaches, seconds to begin with, and seconds for each step.
# NVLink 4: 450 GB/s a direction, of which 370 are left by its protocol (a developer of NCCL, nccl-tests issue 212).
# InfiniBand NDR: 46 to 48 GB/s for an adapter of 400 Gbit/s (the same, issue 290). Sums between two nodes took 113 us
# for 2 MiB, 231 for 8 and 812 for 32 (issue 232; here 115, 249, 784): 60 us to begin with. What NVLink takes to begin
# with is an assumption.
NVLINK = (370e9, 10e-6, 1e-6)
INFINIBAND = (47e9, 60e-6, 5e-6)
GPUS_OF_A_NODE = 8


def all_reduce(processes, size, link):
    if processes == 1:
        return 0.0
    rate, begin, latency = link
    ring = 2 * (processes - 1) / processes * size / rate + 2 * (processes - 1) * latency
    tree = 2 * size / rate + 2 * math.ceil(math.log2(processes)) * latency
    return begin + min(ring, tree)


def job(gpus, size):
    local = min(gpus, GPUS_OF_A_NODE)
    seconds = all_reduce(local, size, NVLINK)
    nodes = gpus // local
    return seconds + all_reduce(nodes, size / local, INFINIBAND)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bytes", action="append", required=True, help="NAME=BYTES of a gradient")
    parser.add_argument("--gpus", default="8,16,64,256,1024")
    arguments = parser.parse_args()
    models = [text.split("=") for text in arguments.bytes]
    print("| GPUs | " + " | ".join(f"{name}: ms" for name, _ in models) + " | "
          + " | ".join(f"{name}: shortest step that loses under 10 %, ms" for name, _ in models) + " |")
    print("|---|" + "---|" * (2 * len(models)))
    for gpus in (int(text) for text in arguments.gpus.split(",")):
        costs = [1e3 * job(gpus, float(size)) for _, size in models]
        print(f"| {gpus:,} | " + " | ".join(f"{cost:.2f}" for cost in costs) + " | "
              + " | ".join(f"{10 * cost:.1f}" for cost in costs) + " |")


if __name__ == "__main__":
    main()
