#!/usr/bin/env python3
"""Writes dlrm_fixture.json: small DLRMs that PyTorch trained for ten steps in double, for dlrm_oracle_test.cpp.

Written from the definitions (Naumov et al., 2019; Oseledets, 2011), with PyTorch's own embedding bags, linear layers,
loss, gradients and AdamW. Tensor trains are expanded to whole matrices. README.md says how to run it.
"""
import json
import math
import pathlib

import numpy as np
import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)

CORE, GATE, DENSE, EMBEDDING, DENSE_TABLE = "core", "gate", "dense", "embedding", "dense_table"
STEPS = 10
RATES = {CORE: 0.011, GATE: 0.023, DENSE: 0.007, EMBEDDING: 0.017, DENSE_TABLE: 0.013}


def layer(outputs, input_modes=None, output_modes=None, ranks=None):
    train = input_modes and {"input_modes": input_modes, "output_modes": output_modes, "ranks": ranks}
    return {"outputs": outputs, "train": train}


def table(rows, row_modes=None, column_modes=None, ranks=None):
    train = row_modes and {"row_modes": row_modes, "column_modes": column_modes, "ranks": ranks}
    return {"rows": rows, "train": train}


# eps is large for the reasons that make_fixture.py gives. The greatest norms are such that some steps are clipped and
# others are not.
CASES = {
    "dense_sum": {
        "numbers": 3, "width": 4, "pooling": "sum",
        "bottom": [layer(6), layer(4)],
        "tables": [table(7), table(23), table(1)],
        "top": [layer(6), layer(1)],
        "beta1": 0.9, "beta2": 0.99, "eps": 1e-2, "weight_decay": 0.3, "decay_cores": False, "max_norm": 1.4,
    },
    "trains_mean": {
        "numbers": 6, "width": 8, "pooling": "mean",
        "bottom": [layer(12, [2, 3], [4, 3], [2, 5, 3]), layer(8, [3, 4], [2, 4], [3, 6, 4])],
        "tables": [table(29, [2, 4, 4], [2, 2, 2], [3, 4]), table(20, [4, 5], [2, 4], [6]), table(5),
                   table(23, [2, 2, 3, 2], [1, 2, 2, 2], [2, 3, 4])],
        "top": [layer(10, [3, 6], [5, 2], [3, 6, 2]), layer(6), layer(1)],
        "beta1": 0.85, "beta2": 0.98, "eps": 1e-2, "weight_decay": 0.25, "decay_cores": True, "max_norm": 0.0,
    },
    "without_numbers": {
        "numbers": 0, "width": 6, "pooling": "sum",
        "bottom": [],
        "tables": [table(11, [3, 4], [3, 2], [5]), table(9), table(31, [2, 4, 4], [1, 3, 2], [2, 6])],
        "top": [layer(8, [3, 4], [4, 2], [3, 6, 2]), layer(1, [2, 4], [1], [2, 1])],
        "beta1": 0.9, "beta2": 0.99, "eps": 1e-2, "weight_decay": 0.2, "decay_cores": False, "max_norm": 1.2,
    },
    # Tables by SparseAdam, which changes the rows that a step has looked up and knows no decay. It adds eps at another
    # place than AdamW, so that eps has to be next to nothing.
    "dense_sparse": {
        "numbers": 3, "width": 4, "pooling": "sum", "sparse_updates": True,
        "bottom": [layer(6), layer(4)],
        "tables": [table(40), table(90), table(7)],
        "top": [layer(6), layer(1)],
        "beta1": 0.9, "beta2": 0.99, "eps": 1e-18, "weight_decay": 0.0, "decay_cores": False, "max_norm": 5.0,
    },
}


class Parameters:
    """Named parameters with what the optimizer must know of them: the group of their rate, and whether they decay."""

    def __init__(self, case, generator):
        self.case, self.generator = case, generator
        self.tensors, self.groups, self.decays = {}, {}, {}

    def __getitem__(self, name):
        return self.tensors[name]

    def add(self, name, scale, shape, group=DENSE, decays=False, mean=0.0):
        values = mean + scale * self.generator.standard_normal(shape)
        self.tensors[name] = torch.from_numpy(np.round(values * 1024) / 1024).requires_grad_(True)
        self.groups[name], self.decays[name] = group, decays

    def add_train(self, name, modes, ranks, deviation, group):
        """Cores (left rank, modes..., right rank), and a gate on every bond between them."""
        bonds = [1, *ranks, 1]
        for k, mode in enumerate(modes):
            scale = deviation ** (1 / len(modes)) / math.sqrt(bonds[k + 1])
            self.add(f"{name}.core.{k}", scale, (bonds[k], *mode, bonds[k + 1]), group, self.case["decay_cores"])
            if k + 1 < len(modes):
                self.add(f"{name}.gate.{k}", 0.3, (bonds[k + 1],), GATE, mean=1.0)


def features(case):
    """Inputs of the top layers: the first vector, and all pairs of it and the tables' vectors."""
    vectors = 1 + len(case["tables"])
    return case["width"] + vectors * (vectors - 1) // 2


def make_parameters(case, generator):
    p = Parameters(case, generator)

    def add_layers(part, inputs):
        for i, spec in enumerate(case[part]):
            name, train = f"{part}.{i}", spec["train"]
            if train:
                modes = [(mode,) for mode in train["input_modes"] + train["output_modes"]]
                p.add_train(name, modes, train["ranks"], 1.6 / math.sqrt(inputs), CORE)
            else:
                p.add(f"{name}.weight", 1.4 / math.sqrt(inputs), (inputs, spec["outputs"]), decays=True)
            p.add(f"{name}.bias", 0.3, (spec["outputs"],))
            inputs = spec["outputs"]

    add_layers("bottom", case["numbers"])
    for i, spec in enumerate(case["tables"]):
        train = spec["train"]
        if train:
            modes = list(zip(train["row_modes"], train["column_modes"]))
            p.add_train(f"table.{i}", modes, train["ranks"], 0.8, EMBEDDING)
        else:
            p.add(f"table.{i}.weight", 0.7, (spec["rows"], case["width"]), DENSE_TABLE, decays=True)
    add_layers("top", features(case))
    return p


def make_batch(case, generator, examples, empty_table):
    """Bags of 0 to 4 ids, with ids that come twice in a bag; all bags of one table may be empty."""

    def bag(t, rows):
        count = 0 if t == empty_table else int(generator.integers(0, 5))
        ids = generator.integers(0, rows, count)
        if count > 1 and generator.random() < 0.5:
            ids[-1] = ids[0]
        return ids.tolist()

    numbers = np.round(generator.standard_normal((examples, case["numbers"])) * 64) / 64
    return {"numbers": numbers.tolist(),
            "bags": [[bag(t, spec["rows"]) for t, spec in enumerate(case["tables"])] for _ in range(examples)],
            "labels": (generator.random(examples) < 0.4).astype(int).tolist()}


def make_batches(case, generator):
    sizes = [12, 9, 1, *generator.integers(2, 13, STEPS - 3).tolist()]
    batches = [make_batch(case, generator, size, 1 if step == 4 else -1) for step, size in enumerate(sizes)]
    bags = [bag for batch in batches for bags in batch["bags"] for bag in bags]
    assert {len(bag) for bag in bags} == {0, 1, 2, 3, 4} and any(len(set(bag)) < len(bag) for bag in bags)
    return batches


def matrix(p, name, train):
    """W of a linear tensor train: its entry is the product of one matrix of each core, gates between them, by the
    digits of input and output; the first digit is the slowest."""
    modes = train["input_modes"] + train["output_modes"]
    product = torch.ones(1, 1)
    for k, mode in enumerate(modes):
        core = p[f"{name}.core.{k}"]
        product = (product @ core.reshape(core.shape[0], -1)).reshape(-1, core.shape[-1])
        if k + 1 < len(modes):
            product = product * p[f"{name}.gate.{k}"]
    return product.reshape(math.prod(train["input_modes"]), math.prod(train["output_modes"]))


def digits_of(index, modes):
    digits = []
    for mode in reversed(modes):
        digits.insert(0, index % mode)
        index = index // mode
    return digits


def rows_of(p, name, train, rows):
    """The rows of a tensor-train matrix: that of an id is made of the cores' slices at its digits."""
    digits = digits_of(torch.arange(rows), train["row_modes"])
    product = torch.ones(rows, 1, 1)  # id, columns so far, bond
    for k, digit in enumerate(digits):
        slices = p[f"{name}.core.{k}"][:, digit]  # left bond, id, column, right bond
        product = torch.einsum("icl,linr->icnr", product, slices).flatten(1, 2)
        if k + 1 < len(digits):
            product = product * p[f"{name}.gate.{k}"]
    return product.squeeze(2)


def weight(p, name, spec):
    return matrix(p, name, spec["train"]) if spec["train"] else p[f"{name}.weight"]


def table_of(p, name, spec):
    return rows_of(p, name, spec["train"], spec["rows"]) if spec["train"] else p[f"{name}.weight"]


def logits_of(p, case, batch, margins=None):
    def layers(part, x):
        for i, spec in enumerate(case[part]):
            x = F.linear(x, weight(p, f"{part}.{i}", spec).T, p[f"{part}.{i}.bias"])
            if part == "bottom" or i + 1 < len(case[part]):
                if margins is not None:
                    margins.append(float(x.detach().abs().min()))
                x = torch.relu(x)
        return x

    examples = len(batch["labels"])
    first = torch.zeros(examples, case["width"])
    if case["numbers"]:
        first = layers("bottom", torch.tensor(batch["numbers"]))
    vectors = [first]
    for t, spec in enumerate(case["tables"]):
        bags = [bags[t] for bags in batch["bags"]]
        ids = torch.tensor([id for bag in bags for id in bag], dtype=torch.int64)
        offsets = torch.tensor(np.cumsum([0, *map(len, bags)])[:-1])
        vectors.append(F.embedding_bag(ids, table_of(p, f"table.{t}", spec), offsets, mode=case["pooling"]))
    stacked = torch.stack(vectors, dim=1)
    products = torch.bmm(stacked, stacked.transpose(1, 2))
    i, j = torch.tril_indices(len(vectors), len(vectors), -1)  # row after row: (1, 0), (2, 0), (2, 1), ...
    return layers("top", torch.cat([first, products[:, i, j]], dim=1))[:, 0]


def loss_of(logits, batch):
    return F.binary_cross_entropy_with_logits(logits, torch.tensor(batch["labels"], dtype=torch.float64),
                                              reduction="sum")


def check_by_hand(p, case, batch):
    """The same logits from single entries of all matrices, one example after another."""
    values = {name: tensor.detach().numpy() for name, tensor in p.tensors.items()}

    def train_entry(name, digits):
        product = np.ones((1, 1))
        for k, digit in enumerate(digits):
            product = product @ values[f"{name}.core.{k}"][(slice(None), *digit, slice(None))]
            if k + 1 < len(digits):
                product = product @ np.diag(values[f"{name}.gate.{k}"])
        return float(product[0, 0])

    def layer_entry(name, train, i, j):
        if not train:
            return values[f"{name}.weight"][i, j]
        digits = digits_of(i, train["input_modes"]) + digits_of(j, train["output_modes"])
        return train_entry(name, [(digit,) for digit in digits])

    def table_entry(name, train, id, d):
        if not train:
            return values[f"{name}.weight"][id, d]
        return train_entry(name, list(zip(digits_of(id, train["row_modes"]), digits_of(d, train["column_modes"]))))

    def layers(part, x):
        for n, spec in enumerate(case[part]):
            name = f"{part}.{n}"
            x = [sum(x[i] * layer_entry(name, spec["train"], i, j) for i in range(len(x)))
                 + values[f"{name}.bias"][j] for j in range(spec["outputs"])]
            if part == "bottom" or n + 1 < len(case[part]):
                x = [max(value, 0.0) for value in x]
        return x

    expected = logits_of(p, case, batch).tolist()
    for b in range(min(3, len(expected))):
        vectors = [layers("bottom", batch["numbers"][b]) if case["numbers"] else [0.0] * case["width"]]
        for t, spec in enumerate(case["tables"]):
            bag = batch["bags"][b][t]
            share = 1 / max(len(bag), 1) if case["pooling"] == "mean" else 1
            vectors.append([share * sum(table_entry(f"table.{t}", spec["train"], id, d) for id in bag)
                            for d in range(case["width"])])
        x = vectors[0] + [sum(a * b for a, b in zip(vectors[i], vectors[j]))
                          for i in range(len(vectors)) for j in range(i)]
        assert math.isclose(layers("top", x)[0], expected[b], rel_tol=1e-11, abs_tol=1e-11)


def train(p, case, batches):
    """What each step sees and finds, and what the first batch is answered in the end."""
    tables = [name for name in p.tensors if case.get("sparse_updates") and p.groups[name] == DENSE_TABLE]
    groups = [{"params": [p[name]], "lr": RATES[p.groups[name]],
               "weight_decay": case["weight_decay"] if p.decays[name] else 0.0} for name in p.tensors if name not in tables]
    options = {"betas": (case["beta1"], case["beta2"]), "eps": case["eps"]}
    optimizers = [torch.optim.AdamW(groups, **options)]
    if tables:
        optimizers.append(torch.optim.SparseAdam([p[name] for name in tables], lr=RATES[DENSE_TABLE], **options))
    steps, first_gradient, margins = [], None, []
    for batch in batches:
        logits = logits_of(p, case, batch, margins)
        loss = loss_of(logits, batch)
        gradients = torch.autograd.grad(loss, list(p.tensors.values()))
        first_gradient = first_gradient or dict(zip(p.tensors, gradients))
        gradients = [gradient / len(batch["labels"]) for gradient in gradients]
        norm = float(torch.sqrt(sum((gradient * gradient).sum() for gradient in gradients)))
        # Exact clipping: torch.nn.utils.clip_grad_norm_ adds 1e-6 to the norm.
        scale = case["max_norm"] / norm if 0 < case["max_norm"] < norm else 1.0
        for name, gradient in zip(p.tensors, gradients):
            p[name].grad = scale * gradient
            if name in tables:
                t = int(name.split(".")[1])
                ids = torch.tensor(sorted({id for bags in batch["bags"] for id in bags[t]}), dtype=torch.int64)
                p[name].grad = torch.sparse_coo_tensor(ids[None], p[name].grad[ids], gradient.shape,
                                                       check_invariants=True).coalesce()
        for optimizer in optimizers:
            optimizer.step()
        correct = sum((z > 0) == (y == 1) for z, y in zip(logits.tolist(), batch["labels"]))
        steps.append({**batch, "logits": logits.tolist(), "loss": float(loss.detach()), "correct": correct,
                      "gradient_norm": norm})
    norms = [step["gradient_norm"] for step in steps]
    if case["max_norm"]:
        assert min(norms) < case["max_norm"] < max(norms)
    # No step hinges on the rounding of a float: no unit is about to be switched on or off.
    assert min(margins) > 3e-5, min(margins)
    return steps, first_gradient, logits_of(p, case, batches[0]).tolist()


def make_case(name, case, generator):
    p = make_parameters(case, generator)
    batches = make_batches(case, generator)
    check_by_hand(p, case, batches[0])
    initial = {name: (tensor.detach() * 1024).round().int().flatten().tolist() for name, tensor in p.tensors.items()}
    steps, gradient, answers = train(p, case, batches)
    check_by_hand(p, case, batches[1])
    losses = ", ".join(f"{step['loss'] / len(step['labels']):.3f}" for step in steps)
    norms = ", ".join(f"{step['gradient_norm']:.2f}" for step in steps)
    print(f"{name}: {sum(map(len, initial.values()))} parameters, mean losses {losses}, gradient norms {norms}")
    parameters = [{"name": own, "group": p.groups[own], "shape": list(p[own].shape), "initial_1024ths": initial[own],
                   "first_gradient": gradient[own].flatten().tolist(), "last": p[own].detach().flatten().tolist()}
                  for own in p.tensors]
    return {"name": name, **case, "rates": RATES, "parameters": parameters, "steps": steps,
            "last_logits_of_first_batch": answers}


def main():
    cases = [make_case(name, case, np.random.default_rng(50 + seed)) for seed, (name, case) in enumerate(CASES.items())]
    out = pathlib.Path(__file__).with_name("dlrm_fixture.json")
    out.write_text(json.dumps(cases, separators=(",", ":")) + "\n")
    print(f"{out.name}: {out.stat().st_size} bytes")


if __name__ == "__main__":
    main()
