#!/usr/bin/env python3
"""Writes optimizer_fixture.json: a matrix and a vector after some updates by LAMB and by GaLore.

Written from the papers (You et al., 2020; Zhao et al., 2024), with NumPy alone:
    python3 tests/oracle/make_optimizer_fixture.py
A weight is inputs x outputs here; GaLore's sides are those of its transpose, outputs x inputs.
"""
import json
import pathlib

import numpy as np

BETA1, BETA2, STEPS = 0.9, 0.99, 5


def adam_moments(state, gradient):
    state["m"] = BETA1 * state["m"] + (1 - BETA1) * gradient
    state["v"] = BETA2 * state["v"] + (1 - BETA2) * gradient**2


def adamw(p, state, gradient, t, rate, eps, decay):
    adam_moments(state, gradient)
    mean = state["m"] / (1 - BETA1**t)
    root = np.sqrt(state["v"] / (1 - BETA2**t))
    return p - rate * (mean / (root + eps) + decay * p)


def lamb(p, state, gradient, t, rate, eps, decay, adapts):
    adam_moments(state, gradient)
    mean = state["m"] / (1 - BETA1**t)
    root = np.sqrt(state["v"] / (1 - BETA2**t))
    u = mean / (root + eps) + decay * p
    norms = np.linalg.norm(p), np.linalg.norm(u)
    ratio = norms[0] / norms[1] if adapts and min(norms) > 0 else 1
    return p - rate * ratio * u


def subspace(gradient, side, rank):
    """Leading singular vectors of outputs x inputs: of the inputs (right), of the outputs (left), or both."""
    u, _, vt = np.linalg.svd(gradient, full_matrices=False)
    return (u[:, :rank] if side in ("left", "full") else None, vt[:rank] if side in ("right", "full") else None)


def signed(vectors, former):
    """A singular vector's sign is arbitrary: as its predecessor points, at first the largest entry positive."""
    if former is None:
        along = vectors[np.arange(len(vectors)), np.abs(vectors).argmax(axis=1)]
    else:
        along = (vectors * former).sum(axis=1)
    return vectors * np.where(along < 0, -1, 1)[:, None]


def side_of(projection, outputs, inputs):
    if projection == "std":
        return "right" if outputs >= inputs else "left"
    if projection == "reverse_std":
        return "left" if outputs >= inputs else "right"
    return projection


def galore(weight, state, gradient, t, rate, eps, decay, options):
    """weight and gradient are outputs x inputs; t counts from 1."""
    if (t - 1) % options["update_proj_gap"] == 0:
        side = side_of(options["proj_type"], *gradient.shape)
        former = state.get("basis", (None, None))
        left, right = subspace(gradient, side, options["rank"])
        state["basis"] = (None if left is None else signed(left.T, former[0] if former[0] is None else former[0].T).T,
                          None if right is None else signed(right, former[1]))
    left, right = state["basis"]
    projected = gradient
    if left is not None:
        projected = left.T @ projected
    if right is not None:
        projected = projected @ right.T
    if "m" not in state:
        state["m"], state["v"] = np.zeros_like(projected), np.zeros_like(projected)
    adam_moments(state, projected)
    update = state["m"] / (np.sqrt(state["v"]) + eps)
    if left is not None:
        update = left @ update
    if right is not None:
        update = update @ right
    weight = weight - rate * np.sqrt(1 - BETA2**t) / (1 - BETA1**t) * options["scale"] * update
    return weight - rate * decay * weight


def case(name, shape, options, seed):
    rng = np.random.default_rng(seed)
    matrix, vector = rng.standard_normal(shape), rng.standard_normal(3)
    gradients = [(rng.standard_normal(shape), rng.standard_normal(3)) for _ in range(STEPS)]
    rate, eps, decay = 0.05, 1e-3, 0.1
    result = {"optimizer": name, "shape": shape, "galore": options, "beta1": BETA1, "beta2": BETA2, "eps": eps,
              "weight_decay": decay, "rate": rate, "matrix": matrix.ravel().tolist(), "vector": vector.tolist(),
              "steps": []}
    empty = lambda x: {"m": np.zeros_like(x), "v": np.zeros_like(x)}
    of_matrix, of_vector = {} if options else empty(matrix), empty(vector)
    for t, (g_matrix, g_vector) in enumerate(gradients, 1):
        if options:
            matrix = galore(matrix.T, of_matrix, g_matrix.T, t, rate, eps, decay, options).T
            vector = adamw(vector, of_vector, g_vector, t, rate, eps, 0)
        else:
            matrix = lamb(matrix, of_matrix, g_matrix, t, rate, eps, decay, True)
            vector = lamb(vector, of_vector, g_vector, t, rate, eps, 0, False)
        result["steps"].append({"matrix_gradient": g_matrix.ravel().tolist(), "vector_gradient": g_vector.tolist(),
                                "matrix": matrix.ravel().tolist(), "vector": vector.tolist()})
    return result


def main():
    cases = [case("lamb", shape, None, seed) for seed, shape in enumerate([(4, 6), (7, 3), (1, 1)])]
    for seed, shape in enumerate([(4, 6), (7, 3), (5, 5)], 10):
        for projection in ("std", "reverse_std", "right", "left", "full"):
            cases.append(case("galore", shape, {"rank": 2, "update_proj_gap": 2, "scale": 0.25,
                                                "proj_type": projection}, seed))
    cases.append(case("galore", (3, 8), {"rank": 100, "update_proj_gap": 3, "scale": 0.5, "proj_type": "std"}, 20))
    out = pathlib.Path(__file__).with_name("optimizer_fixture.json")
    out.write_text(json.dumps(cases, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
