#!/usr/bin/env python3
"""Writes tests/oracle/annotations.json: labels of words with what seqeval says of them, answers with what SQuAD's script
says, as torchmetrics has it, and answers to questions that may have none, by SQuAD 2.0's script, which the wheel of
farm 0.8.0 has.

    pip download --no-deps farm==0.8.0 && unzip farm-0.8.0-py3-none-any.whl farm/evaluation/squad_evaluation.py
    python3 tests/oracle/make_annotation_cases.py farm/evaluation/squad_evaluation.py   # needs seqeval, torchmetrics, torch
"""
import importlib.util
import json
import pathlib
import random
import sys
import warnings

from seqeval.metrics import accuracy_score, classification_report, f1_score, precision_score, recall_score
from torchmetrics.text import SQuAD

RANDOM = random.Random(11)
TYPES = ["PER", "LOC", "ORG", "MISC-2"]


def tags(scheme, length):
    """Labels as an annotator gives them."""
    found = []
    while len(found) < length:
        if RANDOM.random() < 0.6:
            found.append("O")
            continue
        kind, size = RANDOM.choice(TYPES), min(RANDOM.randint(1, 3), length - len(found))
        first, last, only = {"BIO": "BIB", "IO": "III", "BIOES": "BES"}[scheme]
        found += [f"{only if size == 1 else first if i == 0 else last if i == size - 1 else 'I'}-{kind}"
                  for i in range(size)]
    return found


def noisy(labels, all_labels, share):
    return [RANDOM.choice(all_labels) if RANDOM.random() < share else label for label in labels]


def entities(name, wanted, predicted):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = classification_report(wanted, predicted, output_dict=True, zero_division=0)
        types = {kind: {"precision": float(of["precision"]), "recall": float(of["recall"]), "f1": float(of["f1-score"]),
                        "entities": int(of["support"])}
                 for kind, of in report.items() if not kind.endswith(" avg")}
        return {"name": name, "wanted": [" ".join(line) for line in wanted],
                "predicted": [" ".join(line) for line in predicted],
                "accuracy": float(accuracy_score(wanted, predicted)),
                "precision": float(precision_score(wanted, predicted, zero_division=0)),
                "recall": float(recall_score(wanted, predicted, zero_division=0)),
                "f1": float(f1_score(wanted, predicted, zero_division=0)), "types": types}


def all_entities():
    cases = []
    for scheme in ("BIO", "IO", "BIOES"):
        sentences = [tags(scheme, RANDOM.randint(1, 12)) for _ in range(1000 if scheme == "BIO" else 100)]
        labels = sorted({label for line in sentences for label in line})
        cases.append(entities(scheme, sentences, [noisy(line, labels, 0.15) for line in sentences]))
    some = [tags("BIO", 8) for _ in range(20)]
    strange = ["O", "B-PER", "I-PER", "I-LOC", "E-LOC", "S-ORG", "L-PER", "U-PER", "B", "I", "NOUN", "B-", "."]
    odd = [[RANDOM.choice(strange) for _ in range(7)] for _ in range(200)]
    cases += [
        entities("all right", some, some),
        entities("nothing predicted", some, [["O"] * len(line) for line in some]),
        entities("nothing to find", [["O"] * len(line) for line in some], some),
        entities("labels of all kinds", odd, [noisy(line, strange, 0.3) for line in odd]),
        entities("next to each other", [["B-PER", "B-PER", "I-PER"], ["I-PER"]], [["B-PER", "I-PER", "I-PER"], ["I-PER"]]),
    ]
    return cases


WORDS = ["the", "a", "An", "cat", "Cat's", "1963", "1,963", "U.S.", "—", "“quoted”", "naïve", "ÉCOLE", "straße", "東京",
         "the-end", "a.m.", "$5", "%", "over", "under_score", "THE", "anthem", "\u00a0", "ǅ"]


def answer():
    return RANDOM.choice([" ", "  ", "\t"]).join(RANDOM.choice(WORDS) for _ in range(RANDOM.randint(1, 5)))


def all_answers():
    cases = []
    for number in range(1000):
        given = [answer() for _ in range(RANDOM.randint(1, 3))]
        near = RANDOM.choice(given).split()
        RANDOM.shuffle(near) if RANDOM.random() < 0.3 else None
        predicted = answer() if RANDOM.random() < 0.3 else " ".join(near[:RANDOM.randint(1, len(near) + 1)] if near else [""])
        metric = SQuAD()
        score = metric([{"prediction_text": predicted, "id": str(number)}],
                       [{"answers": {"answer_start": [0] * len(given), "text": given}, "id": str(number)}])
        cases.append({"predicted": predicted, "given": given, "exact_match": float(score["exact_match"]) / 100,
                      "f1": float(score["f1"]) / 100})
    return cases


def script(path):
    spec = importlib.util.spec_from_file_location("squad_2", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def unanswerable(squad, count, threshold):
    """Questions of which a third have no answer; a model is unsure of those a little more often."""
    questions, said = [], {}
    for number in range(count):
        given = [] if RANDOM.random() < 0.35 else [answer() for _ in range(RANDOM.randint(1, 3))]
        right = bool(given) and RANDOM.random() < 0.6
        predicted = " ".join(RANDOM.choice(given).split()[:RANDOM.randint(1, 5)]) if right else answer()
        questions.append({"predicted": predicted, "no_answer": RANDOM.gauss(-1 if given else 1, 2), "given": given})
    data = [{"paragraphs": [{"qas": [{"id": str(i), "answers": [{"text": text} for text in of["given"]]}
                                     for i, of in enumerate(questions)]}]}]
    has_answer = squad.make_qid_to_has_ans(data)
    spans = {str(i): of["predicted"] for i, of in enumerate(questions)}
    scores = {str(i): of["no_answer"] for i, of in enumerate(questions)}
    answers = {i: "" if scores[i] > threshold else span for i, span in spans.items()}
    exact, f1 = squad.get_raw_scores(data, answers)
    for name, ids in (("all", list(answers)), ("has", [i for i in answers if has_answer[i]]),
                      ("none", [i for i in answers if not has_answer[i]])):
        said[name] = {key: value / 100 for key, value in squad.make_eval_dict(exact, f1, ids).items()} if ids else {}
    of_spans = squad.get_raw_scores(data, spans)[1]
    best = squad.find_best_thresh(spans, of_spans, scores, has_answer)
    return {"threshold": threshold, "questions": questions, "best_f1": best[0] / 100, "best_threshold": best[1], **said}


def main():
    file = pathlib.Path(__file__).parent / "annotations.json"
    cases = {"entities": all_entities(), "answers": all_answers()}
    squad = script(sys.argv[1])
    cases["unanswerable"] = [unanswerable(squad, *of) for of in ((1000, 0.0), (200, 1.5), (50, -4.0), (1, 0.0))]
    file.write_text(json.dumps(cases, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
