#!/usr/bin/env python3
"""Pretraining of a dense encoder in plain PyTorch on comera's shards: the rival of a tensor-train run of equal hours.

    python3 pretrain.py --data shards/python shards/java --steps 6000 --optimizer muon --rate 2e-3 --output run.jsonl

The model is that of masked_language.py (recipes/codebert_small.toml without tensor trains, dense tied table), with
comera's slopes and deviations at the start, and query, key and value in matrices of their own. It learns masked
language: 15 % of the tokens or --mask, of which 80 % become [MASK] and 10 % a random piece. A step has --sequences
sequences of --length tokens that are all text: windows between [CLS] and [SEP], the last one of a document
overlapping the one before; documents shorter than a window are left out. So nothing is padded, and no step waits for
the data, which are read from memory.

Compiled, bfloat16 by autocast, fused AdamW, or PyTorch's own Muon for the matrices of the blocks and of the head
(its rates adjusted to AdamW's) and AdamW for the rest. Rates rise over --warm-up steps and fall to 0 at --steps;
--stop ends before. Held-out loss as comera's evaluation has it: documents in equal pieces, 15 % of masks, the mean of
the sources. --output gets a line of JSON per evaluation, with the seconds of training until then, without those of
evaluations and of compilation. Needs PyTorch 2.9 and h5py.
"""

import argparse
import json
import math
import pathlib
import time

import h5py
import numpy
import torch
from torch import nn
from torch.nn import functional

from masked_language import Encoder

BLIND = 1e4  # the slope to a side that a head does not see
PAD, _, CLS, SEP, MASK = range(5)  # comera's order of special_ids; checked when a shard is read


def read_documents(folder, split, vocabulary):
    """All tokens of a split, and where its documents begin and end."""
    tokens, offsets = [], [0]
    for path in sorted(pathlib.Path(folder).glob(f"{split}-*.h5")):
        with h5py.File(path) as shard:
            assert shard.attrs["special_ids"].tolist() == [0, 1, 2, 3, 4], path
            assert shard.attrs["vocabulary"] == vocabulary, f"{path}: give --vocabulary {shard.attrs['vocabulary']}"
            offsets += (shard["document_offsets"][1:] + offsets[-1]).tolist()
            tokens.append(shard["tokens"][:])
    return numpy.concatenate(tokens).astype(numpy.int64), numpy.array(offsets)


def windows(offsets, size):
    """Starts of windows of `size` tokens that cover every document of at least as many."""
    starts = [numpy.minimum(numpy.arange(begin, end, size), end - size)
              for begin, end in zip(offsets[:-1], offsets[1:]) if end - begin >= size]
    return numpy.concatenate(starts)


def equal_pieces(offsets, size):
    """Begin and end of the pieces that comera cuts documents into: at most `size` tokens, equal to within one."""
    pieces = []
    for begin, end in zip(offsets[:-1], offsets[1:]):
        count = -(-(end - begin) // size)
        pieces += [(begin + (end - begin) * i // count, begin + (end - begin) * (i + 1) // count) for i in range(count)]
    return pieces


def mask_tokens(ids, chosen, vocabulary, generator):
    """Ids with the chosen places masked, and what stood there."""
    targets, fate = ids[chosen], generator.random(len(chosen))
    shown = numpy.where(fate < 0.8, MASK, targets)
    shown = numpy.where((fate >= 0.8) & (fate < 0.9), generator.integers(5, vocabulary, len(chosen)), shown)
    masked = ids.copy()
    masked[chosen] = shown
    return masked, targets


def slopes_of(heads):
    """How fast the scores of each head fall to the left and to the right; a pair of heads looks to one side alone."""
    def powers(count, first, last):
        return [2.0 ** -(first + (last - first) * (i / (count - 1) if count > 1 else 0)) for i in range(count)]

    pairs = 0 if heads < 2 else max(heads // 4, 1)
    both = heads - 2 * pairs
    sides = [side for slope in powers(pairs, 0, 2) for side in ((slope, BLIND), (BLIND, slope))]
    return sides + [(slope, slope) for slope in powers(both, 2, min(2 + both, 8))]


class QueryKeyValue(nn.Module):
    """Three layers in the place of one, since Muon's step of a matrix of all three is another one."""

    def __init__(self, width):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(3))

    def forward(self, x):
        return torch.cat([layer(x) for layer in self.layers], -1)


class Trainer:
    def __init__(self, options):
        self.options = options
        torch.manual_seed(options.seed)
        self.random = numpy.random.default_rng(options.seed)
        self.model = Encoder(options)
        for block in self.model.blocks:
            block.qkv = QueryKeyValue(options.hidden)
        for name, parameter in self.model.named_parameters():
            if parameter.dim() == 2:
                torch.nn.init.normal_(parameter, std=0.02 if "tokens" in name or "types" in name else
                                      math.sqrt(1 / sum(parameter.shape)))
        distance = torch.arange(options.length)[None] - torch.arange(options.length)[:, None]
        sides = torch.tensor(slopes_of(options.heads))[:, :, None, None]
        self.model.scores = (distance.clamp(max=0) * sides[:, 0] - distance.clamp(min=0) * sides[:, 1])[None]
        self.loss_of = torch.compile(self.plain_loss) if options.compile else self.plain_loss
        self.optimizers = self.make_optimizers()
        self.rates = [[group["lr"] for group in optimizer.param_groups] for optimizer in self.optimizers]

    def make_optimizers(self):
        blocks, rest, vectors = [], [], []
        for name, parameter in self.model.named_parameters():
            kind = vectors if parameter.dim() < 2 else rest if "tokens" in name or "types" in name else blocks
            kind.append(parameter)
        rate, other = self.options.rate, self.options.other_rate or self.options.rate
        if self.options.optimizer == "muon":
            muon = [torch.optim.Muon(blocks, lr=rate, weight_decay=0.01, adjust_lr_fn="match_rms_adamw")]
            decayed = [{"params": rest, "lr": other}]
        else:
            muon, decayed = [], [{"params": blocks + rest, "lr": rate}]
        groups = decayed + [{"params": vectors, "lr": other, "weight_decay": 0.0}]
        return muon + [torch.optim.AdamW(groups, betas=(0.9, 0.98), eps=1e-6, weight_decay=0.01, fused=True)]

    def plain_loss(self, ids, places, targets):
        with torch.autocast("cpu", torch.bfloat16, enabled=self.options.precision == "bf16"):
            logits = self.model(ids, torch.zeros_like(ids), places)
        return functional.cross_entropy(logits.float(), targets)

    def read(self):
        names = [pathlib.Path(folder).name for folder in self.options.data]
        assert len(set(names)) == len(names), "folders of one name: their losses could not be told apart"
        self.sources, self.held_out = ({name: read_documents(folder, split, self.options.vocabulary)
                                        for name, folder in zip(names, self.options.data)}
                                       for split in ("train", "validation"))
        self.begins = {name: self.random.permutation(windows(offsets, self.options.length - 2))
                       for name, (_, offsets) in self.sources.items()}

    def batch(self, step):
        options, size, names = self.options, self.options.length - 2, list(self.sources)
        ids = numpy.empty((options.sequences, options.length), numpy.int64)
        ids[:, 0], ids[:, -1] = CLS, SEP
        for row in range(options.sequences):
            turn, source = divmod(step * options.sequences + row, len(names))  # as many of each source
            begin = self.begins[names[source]][turn % len(self.begins[names[source]])]
            ids[row, 1:-1] = self.sources[names[source]][0][begin:begin + size]
        count = round(options.mask * options.sequences * size)
        chosen = self.random.permutation(options.sequences * size)[:count]
        chosen = numpy.sort(chosen // size * options.length + 1 + chosen % size)
        masked, targets = mask_tokens(ids.ravel(), chosen, options.vocabulary, self.random)
        return (torch.from_numpy(masked.reshape(ids.shape)), torch.from_numpy(chosen), torch.from_numpy(targets))

    def step(self, step):
        options = self.options
        share = (step + 1) / options.warm_up if step < options.warm_up else \
            (options.steps - step) / (options.steps - options.warm_up)
        for optimizer, rates in zip(self.optimizers, self.rates):
            for group, rate in zip(optimizer.param_groups, rates):
                group["lr"] = rate * share
        loss = self.loss_of(*self.batch(step))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        return loss.item()

    @torch.no_grad()
    def held_out_loss(self, name, most):
        """Not compiled: sequences end at their pieces' ends, and padding is hidden from attention."""
        tokens, offsets = self.held_out[name]
        generator = numpy.random.default_rng(1)
        pieces = equal_pieces(offsets, self.options.length - 2)
        if most and most < len(pieces):
            pieces = [pieces[i] for i in sorted(generator.permutation(len(pieces))[:most])]
        pieces.sort(key=lambda piece: piece[1] - piece[0])  # by length: a batch is as long as its longest
        scores, total, count = self.model.scores, 0.0, 0
        for first in range(0, len(pieces), 64):
            part = pieces[first:first + 64]
            length = max(end - begin for begin, end in part) + 2
            ids = numpy.full((len(part), length), PAD)
            for row, (begin, end) in enumerate(part):
                ids[row, :end - begin + 2] = [CLS, *tokens[begin:end], SEP]
            text = (ids != PAD) & (ids != CLS) & (ids != SEP)
            chosen = numpy.flatnonzero(text & (generator.random(ids.shape) < 0.15))
            masked, targets = mask_tokens(ids.ravel(), chosen, self.options.vocabulary, generator)
            hidden = torch.from_numpy(ids == PAD)[:, None, None] * -1e9
            self.model.scores = scores[..., :length, :length] + hidden
            loss = self.plain_loss(torch.from_numpy(masked.reshape(ids.shape)), torch.from_numpy(chosen),
                                   torch.from_numpy(targets))
            total, count = total + loss.item() * len(chosen), count + len(chosen)
        self.model.scores = scores
        return total / count


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", required=True, help="folders of shards")
    parser.add_argument("--output", required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--stop", type=int, help="end after this step")
    parser.add_argument("--optimizer", choices=["adamw", "muon"], default="adamw")
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--other-rate", type=float, help="with Muon: AdamW's (default: --rate)")
    parser.add_argument("--warm-up", type=int, default=200)
    parser.add_argument("--mask", type=float, default=0.15)
    parser.add_argument("--sequences", type=int, default=16)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--hidden", type=int, default=384)
    parser.add_argument("--heads", type=int, default=6)
    parser.add_argument("--vocabulary", type=int, default=16384)
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="bf16")
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--evaluate-every", type=int, default=500)
    parser.add_argument("--held-out", type=int, default=400, help="this many pieces of each source; 0: all")
    parser.add_argument("--held-out-last", type=int, default=4000, help="the same after the last step")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--save", help="keep the last weights in this file")
    options = parser.parse_args()
    options.inner, options.tokens = 4 * options.hidden, options.sequences * options.length
    torch.set_num_threads(options.threads)
    torch.set_flush_denormal(True)
    trainer = Trainer(options)
    trainer.read()
    if options.compile:  # the first call compiles; it changes nothing
        trainer.loss_of(*trainer.batch(0)).backward()
        for parameter in trainer.model.parameters():
            parameter.grad = None
    trainer.random = numpy.random.default_rng(options.seed)
    last, seconds, losses = min(options.stop or options.steps, options.steps), 0.0, []
    with open(options.output, "w") as output:
        print(json.dumps({"options": vars(options), "torch": torch.__version__,
                          "parameters": sum(p.numel() for p in trainer.model.parameters())}), file=output, flush=True)
        for step in range(last):
            start = time.perf_counter()
            losses.append(trainer.step(step))
            seconds += time.perf_counter() - start
            if (step + 1) % options.evaluate_every and step + 1 != last:
                continue
            most = options.held_out_last if step + 1 == last else options.held_out
            held_out = {name: trainer.held_out_loss(name, most) for name in trainer.held_out}
            line = {"step": step + 1, "seconds": round(seconds, 1), "loss": sum(losses) / len(losses),
                    "held_out": sum(held_out.values()) / len(held_out), "sources": held_out}
            print(json.dumps(line), file=output, flush=True)
            print(json.dumps(line), flush=True)
            losses = []
    if options.save:
        torch.save(trainer.model.state_dict(), options.save)


if __name__ == "__main__":
    main()
