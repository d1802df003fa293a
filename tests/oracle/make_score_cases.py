#!/usr/bin/env python3
"""Writes tests/oracle/scores.json: predictions, answers, and what scikit-learn and scipy say of them.

    python3 tests/oracle/make_score_cases.py        # needs numpy, scikit-learn and scipy

Where a correlation of constant values is not defined, scipy says NaN and comera 0, as GLUE's server does.
"""
import json
import pathlib
import warnings

import numpy as np
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

RANDOM = np.random.default_rng(5)


def classes(name, count, truth, predicted):
    average = {"average": "binary"} if count == 2 else {"average": "macro"}
    return {"name": name, "classes": count, "truth": [int(t) for t in truth],
            "predicted": [int(p) for p in predicted], "accuracy": accuracy_score(truth, predicted),
            "f1": f1_score(truth, predicted, zero_division=0, **average),
            "matthews": matthews_corrcoef(truth, predicted)}


def scores(name, truth, predicted):
    truth, predicted = np.float32(truth), np.asarray(predicted, dtype=float)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [float(f(np.asarray(truth, dtype=float), predicted)[0]) for f in (pearsonr, spearmanr)]
    found = [0.0 if np.isnan(value) else value for value in found]
    return {"name": name, "truth": [float(t) for t in truth], "predicted": predicted.tolist(), "pearson": found[0],
            "spearman": found[1]}


def labels(name, truth, predicted):
    f1 = {average: f1_score(truth, predicted, average=average, zero_division=0) for average in ("micro", "macro")}
    return {"name": name, "truth": np.asarray(truth).tolist(), "predicted": np.asarray(predicted).tolist(),
            "accuracy": accuracy_score(truth, predicted), "micro": f1["micro"], "macro": f1["macro"]}


def main():
    n = 97
    two, three = RANDOM.integers(0, 2, n), RANDOM.integers(0, 3, n)
    close = np.where(RANDOM.random(n) < 0.7, two, 1 - two)
    of_classes = [
        classes("two", 2, two, close),
        classes("two at random", 2, two, RANDOM.integers(0, 2, n)),
        classes("all right", 2, two, two),
        classes("all wrong", 2, two, 1 - two),
        classes("always 0", 2, two, 0 * two),
        classes("always 1", 2, two, 0 * two + 1),
        classes("answers are all 0, never predicted", 2, 0 * two, 0 * two + 1),
        classes("answers and predictions are all 1", 2, 0 * two + 1, 0 * two + 1),
        classes("one example", 2, [1], [1]),
        classes("skewed", 2, two * RANDOM.integers(0, 2, n) * RANDOM.integers(0, 2, n), close),
        classes("three", 3, three, np.where(RANDOM.random(n) < 0.6, three, RANDOM.integers(0, 3, n))),
        classes("three, one never predicted", 3, three, np.minimum(three, 1)),
        classes("three, one never asked for", 3, np.minimum(three, 1), three),
        classes("three, always 2", 3, three, 0 * three + 2),
        classes("three, one nowhere", 3, np.minimum(three, 1), np.minimum(three, 1)[::-1]),
    ]
    truth = np.round(RANDOM.random(n) * 5, 1)
    of_numbers = [
        scores("close", truth, truth + RANDOM.normal(0, 0.7, n)),
        scores("unrelated", truth, RANDOM.normal(0, 1, n)),
        scores("against", truth, -truth ** 3),
        scores("many ties", truth, np.round(truth / 2)),
        scores("constant predictions", truth, 0 * truth + 2.5),
        scores("constant answers", 0 * truth + 1, truth),
        scores("far from 0", truth, 1e4 + truth + RANDOM.normal(0, 0.1, n)),
        scores("two", [1, 2], [3, 5]),
    ]
    several = RANDOM.integers(0, 2, (n, 5)) * RANDOM.integers(0, 2, (n, 5))
    nearly = np.where(RANDOM.random((n, 5)) < 0.8, several, 1 - several)
    of_labels = [
        labels("close", several, nearly),
        labels("at random", several, RANDOM.integers(0, 2, (n, 5))),
        labels("all right", several, several),
        labels("none predicted", several, 0 * several),
        labels("all predicted", several, 0 * several + 1),
        labels("no answers, none predicted", 0 * several, 0 * several),
        labels("one label never asked for", several * [1, 1, 0, 1, 1], nearly),
        labels("one label nowhere", several * [1, 1, 0, 1, 1], nearly * [1, 1, 0, 1, 1]),
    ]
    file = pathlib.Path(__file__).parent / "scores.json"
    file.write_text(json.dumps({"classes": of_classes, "scores": of_numbers, "labels": of_labels}, indent=None) + "\n")


if __name__ == "__main__":
    main()
