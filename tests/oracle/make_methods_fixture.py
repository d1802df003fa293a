#!/usr/bin/env python3
"""Writes methods.json: single layers trained by NumPy, for methods_test.cpp. Based on definitions, not on this code.

LoRA-the-Explorer (Huh et al., 2024): every head has its own rows, weights W + s (B_h A_h - B'_h A'_h), gradients by
the chain rule through that matrix, and W is the mean of all heads' after each merge. Low rank: W = U V.
The loss is half the squared distance of tanh(x W + b) from a target, summed over all rows and divided by their number
in the gradient; the optimizer is AdamW. Weights here are (outputs, inputs), as in the paper.
"""
import json
import pathlib

import numpy as np

STEPS, MERGE_STEPS = 8, 3
RATE, BETA1, BETA2, EPS, DECAY = 0.05, 0.9, 0.98, 0.004, 0.1
INPUTS, OUTPUTS, RANK, HEADS, ROWS = 5, 4, 2, 3, 4  # rows of each head
TOKENS = HEADS * ROWS


class AdamW:
    def __init__(self):
        self.m, self.v, self.t = {}, {}, 0

    def update(self, parameters, gradients, decaying):
        self.t += 1
        for name, g in gradients.items():
            self.m[name] = BETA1 * self.m.get(name, 0) + (1 - BETA1) * g
            self.v[name] = BETA2 * self.v.get(name, 0) + (1 - BETA2) * g * g
            step = (self.m[name] / (1 - BETA1**self.t)) / (np.sqrt(self.v[name] / (1 - BETA2**self.t)) + EPS)
            p = parameters[name]
            parameters[name] = p - RATE * (step + (DECAY if name in decaying else 0) * p)


def gradient_of_matrix(w, b, x, target):
    """Loss, and its gradients of w (outputs, inputs) and of b."""
    y = np.tanh(x @ w.T + b)
    du = (y - target) * (1 - y * y)
    return 0.5 * np.sum((y - target) ** 2), du.T @ x, du.sum(0)


def plain(values):
    return {name: np.asarray(value).tolist() for name, value in values.items()}


def lte(random):
    alpha = 3.0
    s = alpha / RANK
    p = {
        "A": random.normal(size=(HEADS, RANK, INPUTS)),
        "B": 0.3 * random.normal(size=(HEADS, OUTPUTS, RANK)),
        "W": random.normal(size=(OUTPUTS, INPUTS)),
        "b": random.normal(size=OUTPUTS),
    }
    p["merged_A"], p["merged_B"] = np.zeros_like(p["A"]), np.zeros_like(p["B"])
    x, target = random.normal(size=(TOKENS, INPUTS)), random.normal(size=(TOKENS, OUTPUTS))
    case = {"alpha": alpha, "initial": plain(p), "x": x.tolist(), "target": target.tolist()}
    adam, losses, evaluated = AdamW(), [], []
    for step in range(1, STEPS + 1):
        loss, gradients = 0, {"A": np.zeros_like(p["A"]), "B": np.zeros_like(p["B"])}
        for h in range(HEADS):
            rows = slice(h * ROWS, (h + 1) * ROWS)
            a, b = p["A"][h], p["B"][h]
            w = p["W"] + s * (b @ a - p["merged_B"][h] @ p["merged_A"][h])
            part, dw, _ = gradient_of_matrix(w, p["b"], x[rows], target[rows])
            loss += part
            gradients["A"][h], gradients["B"][h] = s * b.T @ dw / TOKENS, s * dw @ a.T / TOKENS
        losses.append(loss)
        adam.update(p, gradients, {"A", "B"})
        if step % MERGE_STEPS == 0:
            deltas = [s * (p["B"][h] @ p["A"][h] - p["merged_B"][h] @ p["merged_A"][h]) for h in range(HEADS)]
            p["W"] = p["W"] + sum(deltas) / HEADS
            p["merged_A"], p["merged_B"] = p["A"].copy(), p["B"].copy()
        evaluated.append(gradient_of_matrix(p["W"], p["b"], x, target)[0])
    return case | {"losses": losses, "evaluated": evaluated, "final": plain(p)}


def low_rank(random):
    p = {
        "U": random.normal(size=(INPUTS, RANK)),
        "V": random.normal(size=(RANK, OUTPUTS)),
        "b": random.normal(size=OUTPUTS),
    }
    x, target = random.normal(size=(TOKENS, INPUTS)), random.normal(size=(TOKENS, OUTPUTS))
    case = {"initial": plain(p), "x": x.tolist(), "target": target.tolist()}
    adam, losses, evaluated = AdamW(), [], []
    for _ in range(STEPS):
        loss, dw, db = gradient_of_matrix((p["U"] @ p["V"]).T, p["b"], x, target)
        losses.append(loss)
        gradients = {"U": dw.T @ p["V"].T / TOKENS, "V": p["U"].T @ dw.T / TOKENS, "b": db / TOKENS}
        adam.update(p, gradients, {"U", "V"})
        evaluated.append(gradient_of_matrix((p["U"] @ p["V"]).T, p["b"], x, target)[0])
    return case | {"losses": losses, "evaluated": evaluated, "final": plain(p)}


if __name__ == "__main__":
    random = np.random.default_rng(5)
    fixture = {
        "steps": STEPS, "merge_steps": MERGE_STEPS, "inputs": INPUTS, "outputs": OUTPUTS, "rank": RANK, "heads": HEADS,
        "tokens": TOKENS, "rate": RATE, "beta1": BETA1, "beta2": BETA2, "eps": EPS, "weight_decay": DECAY,
        "lte": lte(random), "low_rank": low_rank(random),
    }
    file = pathlib.Path(__file__).with_name("methods.json")
    file.write_text(json.dumps(fixture) + "\n")
