#!/usr/bin/env python3
"""Pretraining steps of a dense encoder in plain PyTorch: what the dense baseline of `comera bench step` is compared with.

    python3 masked_language.py --hidden 384 --heads 6 --length 128 --precision bf16 --compile --threads 1

The model is recipes/codebert_small.toml with tensorized.enabled = false: post-norm blocks with GELU, attention scores
that fall with the distance (a slope for each head and side), no dropout, and a masked-language head with a decoder tied
to the embedding, which works on the masked positions alone (15 % of the tokens, always as many). Random ids with Zipf's
frequencies, no padding, fused AdamW, optimizer included. One line of JSON: the median, least and largest time of a step
in milliseconds over groups of steps. On a GPU --compile uses CUDA Graphs (mode "reduce-overhead"). Needs PyTorch 2.4
or newer.
"""

import argparse
import json
import os
import statistics
import time

import torch
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    def __init__(self, options):
        super().__init__()
        self.heads = options.heads
        self.qkv = nn.Linear(options.hidden, 3 * options.hidden)
        self.out = nn.Linear(options.hidden, options.hidden)
        self.up, self.down = nn.Linear(options.hidden, options.inner), nn.Linear(options.inner, options.hidden)
        self.norm1, self.norm2 = nn.LayerNorm(options.hidden), nn.LayerNorm(options.hidden)

    def forward(self, x, scores):
        batch, length, hidden = x.shape
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        y = functional.scaled_dot_product_attention(q, k, v, attn_mask=scores.to(q.dtype))
        x = self.norm1(x + self.out(y.transpose(1, 2).reshape(batch, length, hidden)))
        return self.norm2(x + self.down(functional.gelu(self.up(x))))


class Encoder(nn.Module):
    def __init__(self, options):
        super().__init__()
        self.tokens, self.types = nn.Embedding(options.vocabulary, options.hidden), nn.Embedding(2, options.hidden)
        self.norm = nn.LayerNorm(options.hidden)
        self.blocks = nn.ModuleList(Block(options) for _ in range(options.layers))
        self.transform, self.head_norm = nn.Linear(options.hidden, options.hidden), nn.LayerNorm(options.hidden)
        self.bias = nn.Parameter(torch.zeros(options.vocabulary))
        places = torch.arange(options.length)
        distance = (places[None] - places[:, None]).float()
        slopes = 2.0 ** -torch.linspace(1, 8, 2 * options.heads).view(options.heads, 2, 1, 1)
        self.register_buffer("scores", (distance.clamp(max=0) * slopes[:, 0] - distance.clamp(min=0) * slopes[:, 1])[None])

    def forward(self, ids, types, masked):
        x = self.norm(self.tokens(ids) + self.types(types))
        for block in self.blocks:
            x = block(x, self.scores)
        rows = x.flatten(0, 1)[masked]
        rows = self.head_norm(functional.gelu(self.transform(rows)))
        return functional.linear(rows, self.tokens.weight, self.bias)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="bf16")
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--hidden", type=int, default=384)
    parser.add_argument("--heads", type=int, default=6)
    parser.add_argument("--inner", type=int, help="default: four times --hidden")
    parser.add_argument("--vocabulary", type=int, default=16384)
    parser.add_argument("--tokens", type=int, default=2048)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--warm-up", type=int, default=2, help="steps")
    parser.add_argument("--groups", type=int, default=5, help="of steps that are timed together")
    parser.add_argument("--together", type=int, default=1, help="steps of a group")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--compile", action="store_true")
    options = parser.parse_args()
    options.inner = options.inner or 4 * options.hidden
    if options.threads:
        torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    device = torch.device(options.device)
    model = Encoder(options).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01, fused=True)
    uniform = torch.rand(options.tokens // options.length, options.length)
    ids = (options.vocabulary**uniform - 1).long().clamp_(max=options.vocabulary - 1).to(device)
    masked = torch.randperm(options.tokens)[: round(0.15 * options.tokens)].sort().values.to(device)
    targets = ids.flatten()[masked]

    def loss_of(ids, types, masked, targets):
        with torch.autocast(device.type, torch.bfloat16, enabled=options.precision == "bf16"):
            return functional.cross_entropy(model(ids, types, masked).float(), targets)

    on_gpu = device.type == "cuda"
    forward = torch.compile(loss_of, mode="reduce-overhead" if on_gpu else "default") if options.compile else loss_of

    def step():
        if options.compile:
            torch.compiler.cudagraph_mark_step_begin()
        loss = forward(ids, torch.zeros_like(ids), masked, targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

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
    print(json.dumps({
        "model": "dense, PyTorch " + torch.__version__, "device": str(device), "threads": torch.get_num_threads(),
        "processors": os.cpu_count(), "precision": options.precision, "compiled": options.compile,
        "parameters": sum(p.numel() for p in model.parameters()), "hidden": options.hidden, "length": options.length,
        "tokens": options.tokens, "ms_per_step": round(statistics.median(times), 1), "least_ms": round(min(times), 1),
        "most_ms": round(max(times), 1)}))


if __name__ == "__main__":
    main()
