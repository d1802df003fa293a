"""Writes replaced_tokens.json: replaced-token detection (Clark et al., 2020) in plain PyTorch, in double, for
replaced_tokens_test.cpp: what a generator draws, both losses, and the gradient of every parameter. README.md says how
to run it.
"""

import json
import pathlib

import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
LAYERS, HIDDEN, HEADS, FFN, VOCABULARY, POSITIONS, TYPES = 2, 8, 2, 16, 19, 12, 2
LENGTHS = [7, 4, 9]
KEY = {"seed": 0x123456789ABCDEF, "step": 5, "micro_batch": 3}
SITE = 2
EPS = 1e-6


def philox(counter, key):
    """Philox 4x32-10 (Salmon et al., 2011)."""
    counter, low, high = list(counter), key & 0xFFFFFFFF, key >> 32
    for _ in range(10):
        a, b = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [(b >> 32) ^ counter[1] ^ low, b & 0xFFFFFFFF, (a >> 32) ^ counter[3] ^ high, a & 0xFFFFFFFF]
        low, high = (low + 0x9E3779B9) & 0xFFFFFFFF, (high + 0xBB67AE85) & 0xFFFFFFFF
    return counter


def uniform(row):
    return (philox([row, SITE, KEY["step"], KEY["micro_batch"]], KEY["seed"])[0] + 0.5) / 2**32


class Parameters:
    """By name; made when they are first asked for, with few bits so that float has the same."""

    def __init__(self):
        self.values = {}

    def __call__(self, name, *shape):
        if name not in self.values:
            around = 1.0 if name.endswith("norm.weight") or "norm1.weight" in name or "norm2.weight" in name else 0.0
            self.values[name] = (around + (torch.randn(*shape) * 300).round() / 1024).requires_grad_()
        return self.values[name]


def linear(p, name, x, inputs, outputs):
    return x @ p(name + ".weight", inputs, outputs) + p(name + ".bias", outputs)


def norm(p, name, x):
    return F.layer_norm(x, x.shape[-1:], p(name + ".weight", x.shape[-1]), p(name + ".bias", x.shape[-1]), EPS)


def encoder(p, prefix, ids, types, width, heads, ffn):
    table = p("embedding.tokens.weight", VOCABULARY, HIDDEN)
    positions = torch.cat([torch.arange(n) for n in LENGTHS])
    x = norm(p, "embedding.norm", table[ids] + p("embedding.positions", POSITIONS, HIDDEN)[positions] +
             p("embedding.types", TYPES, HIDDEN)[types])
    if width != HIDDEN:
        x = linear(p, prefix + "embedding.projection", x, HIDDEN, width)
    for layer in range(LAYERS):
        name = f"{prefix}encoder.{layer}."
        q, k, v = (linear(p, f"{name}attention.{part}", x, width, width) for part in ("query", "key", "value"))
        parts, at = [], 0
        for length in LENGTHS:
            own = [t[at:at + length].view(length, heads, -1).transpose(0, 1) for t in (q, k, v)]
            parts.append(F.scaled_dot_product_attention(*own).transpose(0, 1).reshape(length, width))
            at += length
        x = norm(p, name + "norm1", x + linear(p, name + "attention.output", torch.cat(parts), width, width))
        inner = F.gelu(linear(p, name + "ffn.up", x, width, ffn))
        x = norm(p, name + "norm2", x + linear(p, name + "ffn.down", inner, ffn, width))
    return x


def draw(logits):
    """For each row the first class up to which the probabilities sum to more than the row's number."""
    sums = logits.softmax(-1).cumsum(-1)
    drawn = [int((sums[row] > uniform(row)).nonzero()[0]) for row in range(len(sums))]
    apart = min((sums[row] - uniform(row)).abs().min().item() for row in range(len(sums)))
    assert apart > 1e-4, "a draw that rounding could change; take another seed"
    return torch.tensor(drawn)


def case(share, weight):
    p = Parameters()
    tokens = sum(LENGTHS)
    original, types = torch.randint(VOCABULARY, (tokens,)), torch.randint(TYPES, (tokens,))
    masked = torch.tensor([1, 4, 7, 8, 13, 19])
    seen = original.clone()
    seen[masked] = 3
    seen[masked[2]] = original[masked[2]]
    width, heads, ffn = round(share * HIDDEN), max(1, round(share * HEADS)), round(share * FFN)

    hidden = encoder(p, "generator.", seen, types, width, heads, ffn)[masked]
    hidden = norm(p, "generator.head.norm", F.gelu(linear(p, "generator.head.transform", hidden, width, HIDDEN)))
    logits = hidden @ p("embedding.tokens.weight", VOCABULARY, HIDDEN).T + p("generator.head.bias", VOCABULARY)
    generator = F.cross_entropy(logits, original[masked], reduction="sum")
    drawn = draw(logits.detach())

    read = original.clone()
    read[masked] = drawn
    replaced = (read != original).double()
    hidden = encoder(p, "", read, types, HIDDEN, HEADS, FFN)
    hidden = F.gelu(linear(p, "head.transform", hidden, HIDDEN, HIDDEN))
    scores = linear(p, "head.detection", hidden, HIDDEN, 1).squeeze(-1)
    detection = F.binary_cross_entropy_with_logits(scores, replaced, reduction="sum")
    loss = generator + weight * len(masked) / tokens * detection
    loss.backward()
    right = ((scores > 0) == (replaced > 0.5))
    return {"width": share, "weight": weight, "ids": seen.tolist(), "types": types.tolist(),
            "masked": masked.tolist(), "targets": original[masked].tolist(), "replaced": int(replaced.sum()),
            "right": int(right.sum()), "found": int((right & (replaced > 0.5)).sum()), "loss": loss.item(),
            "generator_right": int((logits.argmax(-1) == original[masked]).sum()),
            "detection": detection.item(), "parameters": {name: value.flatten().tolist() for name, value in p.values.items()},
            "gradients": {name: value.grad.flatten().tolist() for name, value in p.values.items()}}


def main():
    torch.manual_seed(11)
    path = pathlib.Path(__file__).with_name("replaced_tokens.json")
    cases = {"half": case(0.5, 20.0), "whole": case(1.0, 50.0)}
    written = {"layers": LAYERS, "hidden": HIDDEN, "heads": HEADS, "ffn": FFN, "vocabulary": VOCABULARY,
               "positions": POSITIONS, "lengths": LENGTHS, "eps": EPS, "key": KEY, "cases": cases}
    path.write_text(json.dumps(written, indent=0) + "\n")


main()
