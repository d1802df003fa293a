#!/usr/bin/env python3
"""Training steps of the dense six-encoder in plain PyTorch: what `comera bench step` is compared with.

    python3 step.py --precision bf16 --batch 32 --length 128 --compile

The model is that of recipes/six_encoder_mnli.toml with tensorized.enabled = false: 6 post-norm blocks of 768,
12 heads, inner width 3072, GELU, dropout 0.1, a pooler and a classifier of three classes. Random token ids with
Zipf's frequencies, all of them real (no padding), AdamW, optimizer included. One line of JSON: the median, least
and largest time of a step in milliseconds over groups of ten steps, and the peak memory in MiB.

--compile uses torch.compile with CUDA Graphs (mode "reduce-overhead") and the fused AdamW. Needs PyTorch 2.4 or
newer; works on a CPU too, slowly.
"""

import argparse
import json
import statistics
import time

import torch
from torch import nn
from torch.nn import functional

HIDDEN, HEADS, INNER, LAYERS = 768, 12, 3072, 6
VOCABULARY, POSITIONS, TYPES, CLASSES = 30522, 512, 2, 3


class Block(nn.Module):
    def __init__(self, dropout):
        super().__init__()
        self.qkv = nn.Linear(HIDDEN, 3 * HIDDEN)
        self.out = nn.Linear(HIDDEN, HIDDEN)
        self.up, self.down = nn.Linear(HIDDEN, INNER), nn.Linear(INNER, HIDDEN)
        self.norm1, self.norm2 = nn.LayerNorm(HIDDEN, 1e-9), nn.LayerNorm(HIDDEN, 1e-9)
        self.dropout = dropout

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = (
            part.view(batch, length, HEADS, -1).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1)
        )
        y = functional.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout)
        y = self.out(y.transpose(1, 2).reshape(batch, length, HIDDEN))
        x = self.norm1(x + functional.dropout(y, self.dropout))
        y = self.down(functional.gelu(self.up(x)))
        return self.norm2(x + functional.dropout(y, self.dropout))


class Encoder(nn.Module):
    def __init__(self, dropout=0.1):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, HIDDEN)
        self.positions, self.types = nn.Embedding(POSITIONS, HIDDEN), nn.Embedding(TYPES, HIDDEN)
        self.norm = nn.LayerNorm(HIDDEN, 1e-9)
        self.blocks = nn.ModuleList(Block(dropout) for _ in range(LAYERS))
        self.pooler, self.classifier = nn.Linear(HIDDEN, HIDDEN), nn.Linear(HIDDEN, CLASSES)
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
    parser.add_argument("--groups", type=int, default=10, help="of ten steps each")
    parser.add_argument("--compile", action="store_true")
    options = parser.parse_args()

    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = options.precision == "tf32"
    device = torch.device(options.device)
    on_gpu = device.type == "cuda"
    model = Encoder().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01, fused=on_gpu)
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

    for _ in range(10):
        step()
    wait()
    times = []
    for _ in range(options.groups):
        start = time.perf_counter()
        for _ in range(10):
            step()
        wait()
        times.append((time.perf_counter() - start) * 100)
    print(
        json.dumps(
            {
                "model": "dense, PyTorch " + torch.__version__,
                "device": torch.cuda.get_device_name(device) if on_gpu else "cpu",
                "precision": options.precision,
                "compiled": options.compile,
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
