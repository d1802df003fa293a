#!/usr/bin/python3
"""Writes fixture.h5: small encoders in plain PyTorch, in double, for oracle_test.cpp.

Everything is written from the definitions, with autograd for the gradients: tensor trains
are expanded to whole matrices, sequences are handled one by one, logits are formed in full. README.md says
how to run it.
"""

import argparse
import math
import pathlib

import h5py
import numpy as np
import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)

CORE, GATE, DENSE = "core", "gate", "dense"
STEPS = 3


def tt(inputs, outputs, ranks):
    return {"input_modes": inputs, "output_modes": outputs, "ranks": ranks}


TRAINS = {
    "attention": tt([2, 6], [4, 3], [2, 4, 3]),
    "ffn_up": tt([3, 2, 2], [10], [3, 4, 5]),
    "ffn_down": tt([10], [3, 4], [6, 3]),
    "head": tt([4, 3], [2, 3, 2], [3, 5, 4, 2]),
    "embedding": {"row_modes": [3, 2, 5], "column_modes": [2, 3, 2], "ranks": [4, 3]},
}

# The same beside a table of 6 columns.
NARROW_TRAINS = {**TRAINS, "head": tt([4, 3], [3, 2], [3, 5, 2]),
                 "embedding": {"row_modes": [3, 2, 5], "column_modes": [2, 3, 1], "ranks": [4, 3]}}

# With diagonals.
DIAGONAL_TRAINS = {**TRAINS, "ffn_up": tt([3, 2, 2], [6, 4], [3, 4, 5, 4]), "ffn_down": tt([6, 4], [3, 4], [6, 5, 4])}
for name in ("attention", "ffn_up", "ffn_down", "head"):
    DIAGONAL_TRAINS[name] = {**DIAGONAL_TRAINS[name], "diagonal": 1}

SMALL = {"layers": 2, "hidden": 8, "heads": 2, "ffn": 9, "max_positions": 9, "types": 3, "classes": 4}
UNEVEN = {"layers": 2, "hidden": 12, "heads": 3, "ffn": 10, "max_positions": 9, "types": 3, "classes": 4}

# eps of AdamW is large: the first steps of Adam are g / (|g| + eps), which multiplies an error of a small
# gradient by up to 1 / eps. So the float test measures the formula, not the rounding of gradients. Rates are
# large enough for parameters to move much further than the spacing of floats.
RATES = {CORE: 0.011, GATE: 0.023, DENSE: 0.007}
CASES = {
    "dense_mlm_post": {
        **SMALL, "norm": "post", "head": "mlm", "norm_eps": 1e-5, "vocabulary": 23,
        "rates": RATES, "betas": (0.9, 0.99), "eps": 1e-2, "weight_decay": 0.3, "max_norm": 2.0,
    },
    "dense_classification_post": {
        **SMALL, "norm": "post", "head": "classification", "norm_eps": 2e-2, "vocabulary": 23,
        "rates": RATES, "betas": (0.8, 0.95), "eps": 1e-2, "weight_decay": 0.2, "max_norm": 1000.0,
    },
    "tensorized_mlm_post": {
        **UNEVEN, "norm": "post", "head": "mlm", "norm_eps": 1e-2, "vocabulary": 23, "trains": TRAINS,
        "rates": RATES, "betas": (0.9, 0.99), "eps": 2e-2, "weight_decay": 0.3, "max_norm": 0.0,
    },
    "tensorized_classification_post": {
        **UNEVEN, "norm": "post", "head": "classification", "norm_eps": 1e-5, "vocabulary": 23,
        "trains": TRAINS,
        "rates": RATES, "betas": (0.85, 0.98), "eps": 3e-3, "weight_decay": 0.2, "max_norm": 1.2,
    },
    "tensorized_mlm_pre": {
        **UNEVEN, "norm": "pre", "head": "mlm", "norm_eps": 2e-2, "vocabulary": 23, "trains": TRAINS,
        "decay_cores": True,
        "rates": RATES, "betas": (0.9, 0.99), "eps": 1e-2, "weight_decay": 0.25, "max_norm": 6.0,
    },
    "dense_mlm_relative": {
        **SMALL, "norm": "post", "head": "mlm", "norm_eps": 1e-2, "vocabulary": 23, "positions": "relative",
        "heads": 4,
        "rates": RATES, "betas": (0.9, 0.99), "eps": 1e-2, "weight_decay": 0.3, "max_norm": 2.0,
    },
    "tensorized_mlm_relative": {
        **UNEVEN, "norm": "post", "head": "mlm", "norm_eps": 1e-2, "vocabulary": 23, "trains": TRAINS,
        "positions": "relative",
        "rates": RATES, "betas": (0.9, 0.99), "eps": 4e-3, "weight_decay": 0.3, "max_norm": 0.0,
    },
    "dense_classification_rotary": {
        **SMALL, "norm": "pre", "head": "classification", "norm_eps": 2e-2, "vocabulary": 23,
        "positions": "rotary", "rotary_theta": 50.0,
        "rates": RATES, "betas": (0.8, 0.95), "eps": 1e-2, "weight_decay": 0.2, "max_norm": 1000.0,
    },
    "tensorized_mlm_rotary": {
        **UNEVEN, "norm": "post", "head": "mlm", "norm_eps": 2e-2, "vocabulary": 23, "trains": TRAINS,
        "positions": "rotary", "rotary_theta": 100.0,
        "rates": RATES, "betas": (0.9, 0.99), "eps": 1e-2, "weight_decay": 0.25, "max_norm": 6.0,
    },
    "dense_mlm_narrow": {
        **SMALL, "norm": "pre", "head": "mlm", "norm_eps": 1e-2, "vocabulary": 23, "embedding_size": 5,
        "rates": RATES, "betas": (0.9, 0.99), "eps": 1e-2, "weight_decay": 0.3, "max_norm": 2.0,
    },
    "tensorized_mlm_narrow": {
        **UNEVEN, "norm": "post", "head": "mlm", "norm_eps": 1e-2, "vocabulary": 23, "trains": NARROW_TRAINS,
        "embedding_size": 6,
        "rates": RATES, "betas": (0.9, 0.99), "eps": 1e-2, "weight_decay": 0.3, "max_norm": 0.0,
    },
    "tensorized_classification_narrow": {
        **UNEVEN, "norm": "post", "head": "classification", "norm_eps": 1e-2, "vocabulary": 23,
        "trains": {**NARROW_TRAINS, "head": TRAINS["head"]}, "embedding_size": 6,
        "rates": RATES, "betas": (0.85, 0.98), "eps": 3e-2, "weight_decay": 0.2, "max_norm": 1.2,
    },
    "tensorized_mlm_diagonal": {
        **UNEVEN, "ffn": 24, "norm": "post", "head": "mlm", "norm_eps": 1e-2, "vocabulary": 23,
        "trains": DIAGONAL_TRAINS,
        "rates": RATES, "betas": (0.9, 0.99), "eps": 2e-2, "weight_decay": 0.3, "max_norm": 0.0,
    },
    "tensorized_mlm_projected": {
        **UNEVEN, "norm": "post", "head": "mlm", "norm_eps": 1e-2, "vocabulary": 23,
        "trains": {**TRAINS, "embedding": {**NARROW_TRAINS["embedding"], "projection": 1}},
        "rates": RATES, "betas": (0.9, 0.99), "eps": 2e-2, "weight_decay": 0.3, "max_norm": 0.0,
    },
}

# What each head takes from a score for each token of distance: keys before the query, keys behind it.
BLIND = 1e4
SLOPES = {
    2: [(1, BLIND), (BLIND, 1)],
    3: [(1, BLIND), (BLIND, 1), (1 / 4, 1 / 4)],
    4: [(1, BLIND), (BLIND, 1), (1 / 4, 1 / 4), (1 / 16, 1 / 16)],
}


def table_width(case):
    return case.get("embedding_size", case["hidden"])


class Parameters:
    """Named parameters with role and whether they decay, in the order they are made."""

    def __init__(self, generator, decay_cores):
        self.generator, self.decay_cores = generator, decay_cores
        self.tensors, self.roles, self.decays = {}, {}, {}

    def __getitem__(self, name):
        return self.tensors[name]

    def __contains__(self, name):
        return name in self.tensors

    def add(self, name, values, role=DENSE, decays=False):
        # Multiples of 2^-10: exact in float too, and small when packed.
        values = torch.round(values * 1024) / 1024
        self.tensors[name] = values.clone().requires_grad_(True)
        self.roles[name] = role
        self.decays[name] = self.decay_cores if role == CORE else decays

    def normal(self, *shape):
        return torch.from_numpy(self.generator.standard_normal(shape))

    def uniform(self, *shape):
        return torch.from_numpy(self.generator.uniform(0.4, 1.6, shape))

    def add_cores(self, name, modes, ranks, deviation):
        """Cores (left rank, modes..., right rank) and a gate on every bond between them."""
        bonds = [1, *ranks, 1]
        for k, mode in enumerate(modes):
            scale = deviation ** (1 / len(modes)) / math.sqrt(bonds[k + 1])
            self.add(f"{name}.core.{k}", scale * self.normal(bonds[k], *mode, bonds[k + 1]), CORE)
            if k + 1 < len(modes):
                self.add(f"{name}.gate.{k}", self.uniform(bonds[k + 1]), GATE)

    def add_linear(self, name, inputs, outputs, train):
        deviation = 1.2 / math.sqrt(inputs)
        if train:
            modes = [(n,) for n in train["input_modes"] + train["output_modes"]]
            self.add_cores(name, modes, train["ranks"], deviation)
            if train.get("diagonal"):
                self.add(f"{name}.diagonal", 0.5 * self.normal(max(inputs, outputs)))
        else:
            self.add(f"{name}.weight", deviation * self.normal(inputs, outputs), decays=True)
        self.add(f"{name}.bias", 0.3 * self.normal(outputs))

    def add_norm(self, name, width):
        self.add(f"{name}.weight", self.uniform(width))
        self.add(f"{name}.bias", 0.3 * self.normal(width))


def make_parameters(case, generator):
    p = Parameters(generator, case.get("decay_cores", False))
    hidden, trains = case["hidden"], case.get("trains", {})
    table, columns = trains.get("embedding"), table_width(case)
    if table:
        modes = list(zip(table["row_modes"], table["column_modes"]))
        p.add_cores("embedding.tokens", modes, table["ranks"], 1.0)
    else:
        p.add("embedding.tokens.weight", 0.8 * p.normal(case["vocabulary"], columns), decays=True)
    if table and table.get("projection"):
        p.add("embedding.tokens.projection", 0.6 * p.normal(math.prod(table["column_modes"]), columns), decays=True)
    if case.get("positions", "learned") == "learned":
        p.add("embedding.positions", 0.6 * p.normal(case["max_positions"], columns), decays=True)
    p.add("embedding.types", 0.6 * p.normal(case["types"], columns), decays=True)
    if case["norm"] == "post":
        p.add_norm("embedding.norm", columns)
    if columns != hidden:
        p.add_linear("embedding.projection", columns, hidden, None)
    for layer in range(case["layers"]):
        name = f"encoder.{layer}"
        for part in ("query", "key", "value", "output"):
            p.add_linear(f"{name}.attention.{part}", hidden, hidden, trains.get("attention"))
        p.add_norm(f"{name}.norm1", hidden)
        p.add_linear(f"{name}.ffn.up", hidden, case["ffn"], trains.get("ffn_up"))
        p.add_linear(f"{name}.ffn.down", case["ffn"], hidden, trains.get("ffn_down"))
        p.add_norm(f"{name}.norm2", hidden)
    if case["norm"] == "pre":
        p.add_norm("encoder.norm", hidden)
    if case["head"] == "mlm":
        p.add_linear("head.transform", hidden, columns, trains.get("head"))
        p.add_norm("head.norm", columns)
        p.add("head.bias", 0.3 * p.normal(case["vocabulary"]))
    else:
        p.add_linear("head.pooler", hidden, hidden, trains.get("head"))
        p.add_linear("head.classifier", hidden, case["classes"], None)
    return p


def expand(p, name):
    """The whole matrix of a train, from its definition: entry = a product of one gated matrix per core.

    Linear: one mode per core, inputs before outputs. Table: each core has a row and a column mode.
    """
    operands, bonds, rows, columns = [], "", [], []
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    terms, k, left = [], 0, next(letters)
    while f"{name}.core.{k}" in p:
        core = p[f"{name}.core.{k}"]
        modes, right = [next(letters) for _ in core.shape[1:-1]], next(letters)
        operands.append(core)
        terms.append(left + "".join(modes) + right)
        if f"{name}.gate.{k}" in p:
            operands.append(p[f"{name}.gate.{k}"])
            terms.append(right)
        rows.append(modes[0])
        columns.extend(modes[1:])
        left, k = right, k + 1
    entry = ",".join(terms) + "->" + "".join(rows + columns)
    return torch.einsum(entry, *operands)


def weight(p, name, inputs, outputs):
    if f"{name}.weight" in p:
        return p[f"{name}.weight"]
    whole = expand(p, name).reshape(inputs, outputs)
    if f"{name}.diagonal" in p:
        copies = torch.eye(min(inputs, outputs)).repeat(max(1, inputs // outputs), max(1, outputs // inputs))
        scales = p[f"{name}.diagonal"]
        whole = whole + copies * (scales[:, None] if inputs > outputs else scales)
    return whole


def token_rows(p, case):
    """Without the projection behind a train."""
    if "embedding.tokens.weight" in p:
        return p["embedding.tokens.weight"]
    table = case["trains"]["embedding"]
    return expand(p, "embedding.tokens").reshape(-1, math.prod(table["column_modes"]))[: case["vocabulary"]]


def token_table(p, case):
    rows = token_rows(p, case)
    return rows @ p["embedding.tokens.projection"] if "embedding.tokens.projection" in p else rows


def norm(p, case, name, x):
    return F.layer_norm(x, x.shape[-1:], p[f"{name}.weight"], p[f"{name}.bias"], case["norm_eps"])


def linear(p, name, x, outputs):
    return x @ weight(p, name, x.shape[-1], outputs) + p[f"{name}.bias"]


def distance_bias(case, head, length):
    before, behind = SLOPES[case["heads"]][head]
    bias = torch.zeros(length, length)
    for query in range(length):
        for key in range(length):
            bias[query, key] = -(before if key < query else behind) * abs(query - key)
    return bias


def turned(case, x, positions):
    """x (length, head): the number i of its first half and that of its second are a complex number each."""
    half = x.shape[1] // 2
    speeds = torch.tensor([case["rotary_theta"] ** (-i / half) for i in range(half)])
    turns = torch.polar(torch.ones(len(positions), half), torch.tensor(positions)[:, None] * speeds)
    y = torch.complex(x[:, :half], x[:, half:]) * turns
    return torch.cat([y.real, y.imag], dim=1)


def attention(p, case, name, x, at):
    """x: one sequence, whose tokens are at these positions. softmax(q kT / sqrt(d)) v for each head in turn."""
    hidden = case["hidden"]
    width = hidden // case["heads"]
    q, k, v = (linear(p, f"{name}.{part}", x, hidden) for part in ("query", "key", "value"))
    heads = []
    for head in range(case["heads"]):
        columns = slice(head * width, (head + 1) * width)
        query, key = q[:, columns], k[:, columns]
        if case.get("positions") == "rotary":
            query, key = turned(case, query, at), turned(case, key, at)
        scores = query @ key.T / math.sqrt(width)
        if case.get("positions") == "relative":
            scores = scores + distance_bias(case, head, len(x))
        heads.append(torch.softmax(scores, dim=-1) @ v[:, columns])
    return linear(p, f"{name}.output", torch.cat(heads, dim=-1), hidden)


def feed_forward(p, case, name, x):
    return linear(p, f"{name}.down", F.gelu(linear(p, f"{name}.up", x, case["ffn"])), case["hidden"])


def encoder_layer(p, case, name, x, at):
    if case["norm"] == "post":
        x = norm(p, case, f"{name}.norm1", x + attention(p, case, f"{name}.attention", x, at))
        return norm(p, case, f"{name}.norm2", x + feed_forward(p, case, f"{name}.ffn", x))
    x = x + attention(p, case, f"{name}.attention", norm(p, case, f"{name}.norm1", x), at)
    return x + feed_forward(p, case, f"{name}.ffn", norm(p, case, f"{name}.norm2", x))


def encode(p, case, batch):
    """A list of each sequence's hidden states."""
    table, states = token_table(p, case), []
    for ids, types, positions in zip(batch["ids"], batch["types"], batch["positions"]):
        x = table[ids] + p["embedding.types"][types]
        if "embedding.positions" in p:
            x = x + p["embedding.positions"][positions]
        if case["norm"] == "post":
            x = norm(p, case, "embedding.norm", x)
        if "embedding.projection.weight" in p:
            x = linear(p, "embedding.projection", x, case["hidden"])
        for layer in range(case["layers"]):
            x = encoder_layer(p, case, f"encoder.{layer}", x, positions)
        if case["norm"] == "pre":
            x = norm(p, case, "encoder.norm", x)
        states.append(x)
    return states


def head_logits(p, case, batch, states):
    hidden = case["hidden"]
    if case["head"] == "mlm":
        x = torch.cat(states)[batch["masked_rows"]]
        x = norm(p, case, "head.norm", F.gelu(linear(p, "head.transform", x, table_width(case))))
        return x @ token_table(p, case).T + p["head.bias"]
    first = torch.stack([x[0] for x in states])
    return linear(p, "head.classifier", torch.tanh(linear(p, "head.pooler", first, hidden)), case["classes"])


def run(p, case, batch):
    states = encode(p, case, batch)
    logits = head_logits(p, case, batch, states)
    targets = batch["masked_targets"] if case["head"] == "mlm" else batch["labels"]
    loss = F.cross_entropy(logits, torch.tensor(targets), reduction="sum")
    correct = int((logits.argmax(-1) == torch.tensor(targets)).sum())
    return torch.cat(states), logits, loss, correct


def make_batch(case, generator):
    """Sequences of several lengths, one of them of a single token; ids repeat; one starts at position 2."""
    lengths, starts = [5, 1, 7, 3], [0, 0, 2, 0]

    def draw(high, count):
        return [int(i) for i in generator.integers(0, high, count)]

    batch = {"lengths": lengths}
    batch["ids"] = [draw(case["vocabulary"] - 4, n) for n in lengths]  # some ids occur as targets only
    batch["ids"][2][1] = batch["ids"][2][4] = batch["ids"][0][0]
    batch["types"] = [draw(case["types"], n) for n in lengths]
    batch["positions"] = [list(range(s, s + n)) for s, n in zip(starts, lengths)]
    batch["masked_rows"] = [1, 4, 5, 8, 12, 15]
    batch["masked_targets"] = draw(case["vocabulary"], 5) + [case["vocabulary"] - 1]
    batch["labels"] = [2, 0, 3, 1]
    return batch


def gradients_of(p, case, loss):
    values = torch.autograd.grad(loss, list(p.tensors.values()))
    gradients = dict(zip(p.tensors, values))
    largest = max(float(g.abs().max()) for g in values)
    for name, g in gradients.items():
        # A key's bias moves all scores of a query alike, unless keys are turned, each by its own angle. Softmax
        # does not see that: what is left is rounding.
        if name.endswith("attention.key.bias") and case.get("positions") != "rotary":
            assert float(g.abs().max()) < 1e-13 * largest
            gradients[name] = torch.zeros_like(g)
        else:
            assert float(g.abs().max()) > 1e-4 * largest, f"{name} hardly matters"
    return gradients


def flat(tensors):
    return np.concatenate([t.detach().numpy().ravel() for t in tensors.values()])


def optimize(p, case, batch):
    """Three steps of torch.optim.AdamW. Returns parameters after each and gradient norms before clipping."""
    groups = []
    for name, tensor in p.tensors.items():
        decay = case["weight_decay"] if p.decays[name] else 0.0
        groups.append({"params": [tensor], "lr": case["rates"][p.roles[name]], "weight_decay": decay})
    optimizer = torch.optim.AdamW(groups, betas=case["betas"], eps=case["eps"])
    targets = len(batch["masked_targets"] if case["head"] == "mlm" else batch["labels"])
    after, norms = [], []
    for _ in range(STEPS):
        _, _, loss, _ = run(p, case, batch)
        gradients = {name: g / targets for name, g in gradients_of(p, case, loss).items()}
        total = float(torch.sqrt(sum((g * g).sum() for g in gradients.values())))
        # Exact clipping: torch.nn.utils.clip_grad_norm_ adds 1e-6 to the norm.
        scale = case["max_norm"] / total if 0 < case["max_norm"] < total else 1.0
        for name, tensor in p.tensors.items():
            tensor.grad = gradients[name] * scale
        optimizer.step()
        after.append(flat(p.tensors))
        norms.append(total)
    return np.stack(after), norms


def check_against_torch_layer(p, case):
    """A dense encoder layer agrees with torch.nn.TransformerEncoderLayer, in value and in input gradient."""
    generator = np.random.default_rng(5)
    for placement in ("post", "pre"):
        variant = {**case, "norm": placement, "positions": "learned"}
        layer = torch.nn.TransformerEncoderLayer(
            case["hidden"], case["heads"], case["ffn"], dropout=0.0, activation="gelu",
            layer_norm_eps=case["norm_eps"], batch_first=True, norm_first=placement == "pre").double()
        own = "encoder.1"
        with torch.no_grad():
            projections = [p[f"{own}.attention.{part}.weight"].T for part in ("query", "key", "value")]
            layer.self_attn.in_proj_weight.copy_(torch.cat(projections))
            biases = [p[f"{own}.attention.{part}.bias"] for part in ("query", "key", "value")]
            layer.self_attn.in_proj_bias.copy_(torch.cat(biases))
            for theirs, ours in ((layer.self_attn.out_proj, "attention.output"), (layer.linear1, "ffn.up"),
                                 (layer.linear2, "ffn.down")):
                theirs.weight.copy_(p[f"{own}.{ours}.weight"].T)
                theirs.bias.copy_(p[f"{own}.{ours}.bias"])
            for theirs, ours in ((layer.norm1, "norm1"), (layer.norm2, "norm2")):
                theirs.weight.copy_(p[f"{own}.{ours}.weight"])
                theirs.bias.copy_(p[f"{own}.{ours}.bias"])
        x = torch.from_numpy(generator.standard_normal((6, case["hidden"]))).requires_grad_(True)
        expected, got = layer(x[None])[0], encoder_layer(p, variant, own, x, list(range(6)))
        assert torch.allclose(got, expected, rtol=1e-12, atol=1e-12)
        probe = torch.from_numpy(generator.standard_normal(got.shape))
        slopes = [torch.autograd.grad((y * probe).sum(), x)[0] for y in (got, expected)]
        assert torch.allclose(*slopes, rtol=1e-11, atol=1e-11)


def check_expansion(p, case):
    """Single entries of an expanded train and table, as products of gated matrices over the digits."""

    def entry(name, digits):
        product = torch.ones(1, 1)
        for k, digit in enumerate(digits):
            product = product @ p[f"{name}.core.{k}"][(slice(None), *digit)]
            if f"{name}.gate.{k}" in p:
                product = product * p[f"{name}.gate.{k}"]
        return product[0, 0]

    def digits_of(index, modes):
        digits = []
        for mode in reversed(modes):
            digits.insert(0, index % mode)
            index //= mode
        return digits

    train, table = case["trains"]["attention"], case["trains"]["embedding"]
    w = expand(p, "encoder.0.attention.key").reshape(case["hidden"], case["hidden"])
    e = token_rows(p, case)
    for i, j in ((0, 0), (1, 0), (0, 1), (7, 5), (11, 11), (3, 10)):
        digits = digits_of(i, train["input_modes"]) + digits_of(j, train["output_modes"])
        assert torch.isclose(w[i, j], entry("encoder.0.attention.key", [(d,) for d in digits]), rtol=1e-12)
        column = j % e.shape[1]
        pairs = list(zip(digits_of(i + 9, table["row_modes"]), digits_of(column, table["column_modes"])))
        assert torch.isclose(e[i + 9, column], entry("embedding.tokens", pairs), rtol=1e-12)


def write(group, values, **arrays):
    for name, array in arrays.items():
        packing = {"chunks": array.shape, "compression": "gzip", "compression_opts": 9, "shuffle": True}
        group.create_dataset(name, data=array, **(packing if array.size > 1000 else {}))
    for name, value in values.items():
        group.attrs[name] = np.array(value, dtype=np.int64) if isinstance(value, list) else value


def write_case(file, name, case, generator):
    p = make_parameters(case, generator)
    batch = make_batch(case, generator)
    if "trains" in case:
        check_expansion(p, case)
    else:
        check_against_torch_layer(p, case)
    if case["head"] == "mlm":  # one hit, so that counting them is tested
        batch["masked_targets"][0] = int(run(p, case, batch)[1][0].argmax())
    initial = flat(p.tensors)
    hidden, logits, loss, correct = run(p, case, batch)
    gradient = gradients_of(p, case, loss)
    after, norms = optimize(p, case, batch)
    clipped = 0 < case["max_norm"] < norms[0]
    print(f"{name}: {initial.size} parameters, loss {float(loss):.4f}, correct {correct}, gradient norms "
          f"{', '.join(f'{n:.3f}' for n in norms)}{' (clipped)' if clipped else ''}")

    group = file.create_group(name)
    keys = ("layers", "hidden", "heads", "ffn", "vocabulary", "max_positions", "types", "classes", "norm", "head",
            "norm_eps")
    others = {"positions": case.get("positions", "learned"), "rotary_theta": case.get("rotary_theta", 10000.0),
              "embedding_size": case.get("embedding_size", 0)}
    write(group.create_group("config"), {**{key: case[key] for key in keys}, **others})
    for layer, shape in case.get("trains", {}).items():
        write(group.create_group(f"config/{layer}"), {"diagonal": 0, "projection": 0, **shape})
    optimizer = {"beta1": case["betas"][0], "beta2": case["betas"][1], "decay_cores": int(p.decay_cores)}
    optimizer.update({key: case[key] for key in ("eps", "weight_decay", "max_norm")})
    optimizer.update({f"rate_{role}": rate for role, rate in case["rates"].items()})
    write(group.create_group("optimizer"), optimizer, gradient_norms=np.array(norms))
    arrays = {key: np.concatenate(batch[key]) for key in ("ids", "types", "positions")}
    arrays.update({key: np.array(batch[key]) for key in ("lengths", "masked_rows", "masked_targets", "labels")})
    write(group.create_group("batch"), {}, **{key: a.astype(np.int32) for key, a in arrays.items()})
    # One vector of all parameters in the order of this table: a dataset for each would be mostly headers.
    table = "".join(f"{n} {p.roles[n]} {'x'.join(map(str, t.shape))}\n" for n, t in p.tensors.items())
    group.attrs["parameters"] = table
    group.attrs["loss_sum"] = float(loss)
    group.attrs["correct"] = correct
    write(group, {}, initial=initial, hidden=hidden.detach().numpy(), logits=logits.detach().numpy(),
          gradient=flat(gradient), after_steps=after)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = pathlib.Path(__file__).with_name("fixture.h5")
    parser.add_argument("output", nargs="?", type=pathlib.Path, default=default)
    path = parser.parse_args().output
    with h5py.File(path, "w", libver=("v108", "v108")) as file:
        file.attrs["format"] = "comera oracle"
        for seed, (name, case) in enumerate(CASES.items()):
            write_case(file, name, case, np.random.default_rng(1000 + seed))
    print(f"{path}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
