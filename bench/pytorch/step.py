#!/usr/bin/env python3
"""Training steps of the six-encoder in plain PyTorch: what `comera bench step` is compared with.

    python3 step.py --precision bf16 --batch 32 --length 128 --compile
    python3 step.py --tensor-trains --device cpu --warm-up 2 --groups 5 --together 1

The model is that of recipes/six_encoder_mnli.toml with tensorized.enabled = false: 6 post-norm blocks of 768,
12 heads, inner width 3072, GELU, dropout 0.1, a pooler and a classifier of three classes. Random token ids with
Zipf's frequencies, all of them real (no padding), AdamW, optimizer included. One line of JSON: the median, least
and largest time of a step in milliseconds over groups of steps, and the peak memory in MiB.

--tensor-trains gives it that recipe's tensor trains, in the quickest way that we know in PyTorch: the cores of each side
are multiplied to one matrix, and x goes through these two, through the first ones of Q, K and V at once; the table of
embeddings likewise, by a batched product of both halves for each distinct token. The step learns the cores.

--compile uses torch.compile with CUDA Graphs (mode "reduce-overhead") and the fused AdamW. Needs PyTorch 2.4 or
newer; works on a CPU too, slowly.
"""

import argparse
import json
import math
import statistics
import time

import torch
from torch import nn
from torch.nn import functional

HIDDEN, HEADS, INNER, LAYERS = 768, 12, 3072, 6
VOCABULARY, POSITIONS, TYPES, CLASSES = 30522, 512, 2, 3


def merged(cores):
    """The product of a chain of cores (r, n, r') over their ranks: (r, n1 n2 ..., r')."""
    whole = cores[0]
    for core in cores[1:]:
        whole = (whole.flatten(0, 1) @ core.flatten(1)).view(whole.shape[0], -1, core.shape[2])
    return whole


def cores_of(modes, ranks, deviation):
    """Cores whose product has entries of this deviation."""
    each = (deviation / math.prod(ranks) ** 0.5) ** (1 / len(modes))
    bonds = [1, *ranks, 1]
    return nn.ParameterList(
        nn.Parameter(each * torch.randn(bonds[k], modes[k], bonds[k + 1])) for k in range(len(modes))
    )


class TTLinear(nn.Module):
    def __init__(self, inputs, outputs, ranks):
        super().__init__()
        self.sides = len(inputs)
        self.cores = cores_of(inputs + outputs, ranks, math.prod(inputs) ** -0.5)
        self.bias = nn.Parameter(torch.zeros(math.prod(outputs)))

    def left(self):
        return merged(list(self.cores)[: self.sides])[0]

    def rest(self, inner):
        right = merged(list(self.cores)[self.sides :]).flatten(1)
        return functional.linear(inner, right.t(), self.bias)

    def forward(self, x):
        return self.rest(x @ self.left())


class TTTable(nn.Module):
    """A tensor-train matrix: rows of digits (16, 20 | 10, 10), columns (4, 4 | 8, 6), ranks 32."""

    rows, columns, rank = (16, 20, 10, 10), (4, 4, 8, 6), 32

    def __init__(self):
        super().__init__()
        modes = [r * c for r, c in zip(self.rows, self.columns)]
        self.cores = cores_of(modes, [self.rank] * 3, 1.0)

    def half(self, first):
        """Of cores `first` and the next: (row digits, r, columns, r')."""
        (n1, m1), (n2, m2) = ((self.rows[k], self.columns[k]) for k in (first, first + 1))
        a, b = self.cores[first], self.cores[first + 1]
        whole = merged([a, b]).view(a.shape[0], n1, m1, n2, m2, b.shape[2])
        return whole.permute(1, 3, 0, 2, 4, 5).reshape(n1 * n2, a.shape[0], m1 * m2, b.shape[2])

    def forward(self, ids):
        distinct, index = torch.unique(ids, return_inverse=True)
        right_rows = self.rows[2] * self.rows[3]
        left = functional.embedding(torch.div(distinct, right_rows, rounding_mode="floor"), self.half(0).flatten(1))
        right = functional.embedding(distinct % right_rows, self.half(2).flatten(1))
        left, right = left.view(len(distinct), -1, self.rank), right.view(len(distinct), self.rank, -1)
        return functional.embedding(index, (left @ right).flatten(1))


def linear(inputs, outputs, tensor_trains):
    if not tensor_trains:
        return nn.Linear(inputs, outputs)
    modes = {HIDDEN: ([12, 8, 8], [8, 8, 12]), INNER: ([16, 16, 12], [12, 16, 16])}
    first, last = modes[inputs][0], modes[outputs][1]
    return TTLinear(first, last, [first[0], 30, 30, 30, last[-1]])


class Block(nn.Module):
    def __init__(self, dropout, tensor_trains):
        super().__init__()
        self.qkv = nn.ModuleList(linear(HIDDEN, HIDDEN, True) for _ in range(3)) if tensor_trains else None
        self.fused_qkv = None if tensor_trains else nn.Linear(HIDDEN, 3 * HIDDEN)
        self.out = linear(HIDDEN, HIDDEN, tensor_trains)
        self.up, self.down = linear(HIDDEN, INNER, tensor_trains), linear(INNER, HIDDEN, tensor_trains)
        self.norm1, self.norm2 = nn.LayerNorm(HIDDEN, 1e-9), nn.LayerNorm(HIDDEN, 1e-9)
        self.dropout = dropout

    def forward(self, x):
        batch, length, _ = x.shape
        if self.qkv is None:
            parts = self.fused_qkv(x).chunk(3, dim=-1)
        else:  # one product with the left factors of all three
            inner = (x @ torch.cat([part.left() for part in self.qkv], 1)).chunk(3, dim=-1)
            parts = [part.rest(of_part) for part, of_part in zip(self.qkv, inner)]
        q, k, v = (part.view(batch, length, HEADS, -1).transpose(1, 2) for part in parts)
        y = functional.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout)
        y = self.out(y.transpose(1, 2).reshape(batch, length, HIDDEN))
        x = self.norm1(x + functional.dropout(y, self.dropout))
        y = self.down(functional.gelu(self.up(x)))
        return self.norm2(x + functional.dropout(y, self.dropout))


class Encoder(nn.Module):
    def __init__(self, tensor_trains, dropout=0.1):
        super().__init__()
        self.tokens = TTTable() if tensor_trains else nn.Embedding(VOCABULARY, HIDDEN)
        self.positions, self.types = nn.Embedding(POSITIONS, HIDDEN), nn.Embedding(TYPES, HIDDEN)
        self.norm = nn.LayerNorm(HIDDEN, 1e-9)
        self.blocks = nn.ModuleList(Block(dropout, tensor_trains) for _ in range(LAYERS))
        self.pooler, self.classifier = linear(HIDDEN, HIDDEN, tensor_trains), nn.Linear(HIDDEN, CLASSES)
        self.dropout = dropout

    def forward(self, ids, types):
        places = torch.arange(ids.shape[1], device=ids.device)
        x = self.tokens(ids) + self.positions(places) + self.types(types)
        x = functional.dropout(self.norm(x), self.dropout)
        for block in self.blocks:
            x = block(x)
        pooled = functional.dropout(torch.tanh(self.pooler(x[:, 0])), self.dropout)
        return self.classifier(pooled)


def random_batch(batch, length, device):
    generator = torch.Generator().manual_seed(1)
    uniform = torch.rand(batch, length, generator=generator)
    ids = (VOCABULARY**uniform - 1).long().clamp_(max=VOCABULARY - 1)
    labels = torch.arange(batch) % CLASSES
    return ids.to(device), torch.zeros_like(ids).to(device), labels.to(device)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--precision", choices=["fp32", "tf32", "bf16"], default="fp32")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--warm-up", type=int, default=10, help="steps")
    parser.add_argument("--groups", type=int, default=10, help="of steps that are timed together")
    parser.add_argument("--together", type=int, default=10, help="steps of a group")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--tensor-trains", action="store_true")
    parser.add_argument("--compile", action="store_true")
    options = parser.parse_args()

    if options.threads:
        torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = options.precision == "tf32"
    device = torch.device(options.device)
    on_gpu = device.type == "cuda"
    model = Encoder(options.tensor_trains).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01, fused=True)
    ids, types, labels = random_batch(options.batch, options.length, device)

    def loss_of(ids, types, labels):
        with torch.autocast(device.type, torch.bfloat16, enabled=options.precision == "bf16"):
            return functional.cross_entropy(model(ids, types).float(), labels)

    forward = torch.compile(loss_of, mode="reduce-overhead" if on_gpu else "default") if options.compile else loss_of

    def step():
        if options.compile:
            torch.compiler.cudagraph_mark_step_begin()
        loss = forward(ids, types, labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss

    def wait():
        if on_gpu:
            torch.cuda.synchronize()

    for _ in range(options.warm_up):
        step()
    wait()
    times = []
    for _ in range(options.groups):
        start = time.perf_counter()
        for _ in range(options.together):
            step()
        wait()
        times.append((time.perf_counter() - start) * 1000 / options.together)
    print(
        json.dumps(
            {
                "model": ("tensor trains" if options.tensor_trains else "dense") + ", PyTorch " + torch.__version__,
                "device": torch.cuda.get_device_name(device) if on_gpu else "cpu",
                "precision": options.precision,
                "compiled": options.compile,
                "parameters": sum(p.numel() for p in model.parameters()),
                "batch": options.batch,
                "length": options.length,
                "ms_per_step": round(statistics.median(times), 4),
                "least_ms": round(min(times), 4),
                "most_ms": round(max(times), 4),
                "peak_mib": round(torch.cuda.max_memory_allocated(device) / 2**20, 1) if on_gpu else None,
            }
        )
    )


if __name__ == "__main__":
    main()
