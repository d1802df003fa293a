#!/usr/bin/env python3
"""Training steps of DLRM in PyTorch, with the tables of Criteo Kaggle as dense EmbeddingBags: milliseconds and memory,
beside `comera_bench_clicks`.

    bench/pytorch/clicks.py --width 16 --batch 10000 --threads 2 [--all-rows] [--compile]

Layers, heights and ids are those of bench/click_step.cpp. Tables give sparse gradients to SparseAdam and everything
else has AdamW; with --all-rows all of it has AdamW, whose steps pass over every row.
"""
import argparse
import resource
import statistics
import time

import torch

HEIGHTS = [1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683, 8351593, 3194, 27, 14992, 5461306, 10,
           5652, 2173, 4, 7046547, 18, 15, 286181, 105, 142572]


class Dlrm(torch.nn.Module):
    def __init__(self, width, sparse):
        super().__init__()
        self.tables = torch.nn.ModuleList(
            torch.nn.EmbeddingBag(rows, width, mode="sum", sparse=sparse) for rows in HEIGHTS)
        self.bottom = layers([13, 512, 256, 64, width])
        pairs = (len(HEIGHTS) + 1) * len(HEIGHTS) // 2
        self.top = layers([width + pairs, 512, 256, 1])[:-1]  # no ReLU behind the answer
        self.register_buffer("pairs", torch.tril_indices(len(HEIGHTS) + 1, len(HEIGHTS) + 1, -1), persistent=False)

    def forward(self, numbers, ids, offsets):
        first = self.bottom(numbers)
        vectors = torch.stack([first, *(table(ids[t], offsets) for t, table in enumerate(self.tables))], 1)
        products = torch.bmm(vectors, vectors.transpose(1, 2))
        return self.top(torch.cat([first, products[:, self.pairs[0], self.pairs[1]]], 1)).squeeze(1)


def layers(widths):
    made = []
    for inputs, outputs in zip(widths, widths[1:]):
        made += [torch.nn.Linear(inputs, outputs), torch.nn.ReLU()]
    return torch.nn.Sequential(*made)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--batch", type=int, default=10000)
    parser.add_argument("--passes", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--all-rows", action="store_true")
    parser.add_argument("--compile", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    model = Dlrm(options.width, not options.all_rows)
    tables = list(model.tables.parameters())
    others = [*model.bottom.parameters(), *model.top.parameters()]
    optimizers = [torch.optim.AdamW([*tables, *others], lr=1e-3, fused=True)] if options.all_rows else [
        torch.optim.SparseAdam(tables, lr=1e-3), torch.optim.AdamW(others, lr=1e-3, fused=True)]
    run = torch.compile(model) if options.compile else model
    heights = torch.tensor(HEIGHTS, dtype=torch.float64)
    ids = (torch.rand(len(HEIGHTS), options.batch, dtype=torch.float64) * (heights + 1).log()[:, None]).exp() - 1
    ids = torch.minimum(ids, heights[:, None] - 1).long()
    offsets = torch.arange(options.batch)
    numbers = torch.randn(options.batch, 13)
    labels = (torch.rand(options.batch) < 0.25).float()
    times = []
    for _ in range(options.passes):
        start = time.perf_counter()
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.binary_cross_entropy_with_logits(run(numbers, ids, offsets), labels)
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        times.append(1e3 * (time.perf_counter() - start))
    times = sorted(times[1:])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"PyTorch {torch.__version__}, width {options.width}, batch {options.batch}, "
          f"{'AdamW of all rows' if options.all_rows else 'SparseAdam'}{', compiled' if options.compile else ''}: "
          f"{statistics.median(times):.1f} ms a step ({times[0]:.1f} to {times[-1]:.1f}); peak {peak:.0f} MiB of the "
          f"process; loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
