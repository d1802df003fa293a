"""Writes contrastive.json: losses of contrastive learning and their gradients in plain PyTorch, in double, for
contrastive_test.cpp. Unmasked losses are also those of sentence-transformers, if that is installed. README.md says how
to run it.
"""

import json
import pathlib

import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
WIDTH = 6
CASES = {
    "pairs": {"texts": 2, "temperature": 0.05, "symmetric": False, "lengths": [3, 5, 1, 2, 4, 4, 2, 6]},
    "symmetric": {"texts": 2, "temperature": 0.1, "symmetric": True, "lengths": [3, 5, 1, 2, 4, 4, 2, 6, 1, 1]},
    "hard_negatives": {"texts": 3, "temperature": 0.3, "symmetric": False, "lengths": [3, 5, 1, 2, 4, 4, 2, 6, 1]},
    # (example, document) that are no candidates: equal texts
    "masked": {"texts": 2, "temperature": 0.05, "symmetric": True, "lengths": [3, 5, 1, 2, 4, 4, 2, 6],
               "excluded": [(0, 2), (2, 0), (3, 1)]},
}


def loss_of(hidden, case):
    vectors = torch.stack([part.mean(0) for part in hidden.split(case["lengths"])])
    groups = [vectors[kind::case["texts"]] for kind in range(case["texts"])]
    documents = torch.cat(groups[1:])
    logits = F.cosine_similarity(groups[0][:, None], documents[None], dim=-1) / case["temperature"]
    for example, document in case.get("excluded", []):
        logits[example, document] = -torch.inf
    targets = torch.arange(len(logits))
    loss = F.cross_entropy(logits, targets, reduction="sum")
    if case["symmetric"]:
        loss = loss + F.cross_entropy(logits.T, targets, reduction="sum")
    return loss, groups


def check(loss, groups, case):
    try:
        from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
    except ImportError:
        print("sentence-transformers is not installed: its losses are not compared")
        return
    if "excluded" in case:
        return
    both = {"directions": ("query_to_doc", "doc_to_query"), "partition_mode": "per_direction"}
    options = both if case["symmetric"] else {}
    theirs = MultipleNegativesRankingLoss(None, scale=1 / case["temperature"], **options)
    theirs = theirs.compute_loss_from_embeddings(groups, None)
    ours = loss / len(groups[0]) / (2 if case["symmetric"] else 1)
    assert abs(theirs.item() - ours.item()) < 1e-12, (theirs.item(), ours.item())


def main():
    torch.manual_seed(3)
    written = {}
    for name, case in CASES.items():
        hidden = torch.randn(sum(case["lengths"]), WIDTH, requires_grad=True)
        loss, groups = loss_of(hidden, case)
        loss.backward()
        with torch.no_grad():
            check(loss, groups, case)
        written[name] = {**case, "width": WIDTH, "hidden": hidden.flatten().tolist(), "loss": loss.item(),
                         "gradient": hidden.grad.flatten().tolist()}
    path = pathlib.Path(__file__).with_name("contrastive.json")
    path.write_text(json.dumps(written, indent=0) + "\n")


main()
