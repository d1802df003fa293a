"""Writes distillation.json: losses of a student beside its teacher and their gradients in plain PyTorch, in double, for
distillation_test.cpp. README.md says how to run it.
"""

import json
import pathlib

import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
WIDTH, TEACHER = 6, 8
LENGTHS = [3, 5, 1, 2, 4]
ENCODERS = {
    "vectors": {"vectors": 0.7, "projected": True},
    "vectors_of_one_width": {"vectors": 1.0},
    "similarities": {"similarities": 2.0},
    "hidden": {"hidden": 1.5, "projected": True},
    "hidden_of_one_width": {"hidden": 1.0},
    "all": {"vectors": 1.0, "similarities": 0.5, "hidden": 0.25, "projected": True},
}
RELATIONS = {"one_head": {"relations": 1.0, "heads": 1}, "two_heads": {"relations": 0.6, "heads": 2}}
LOGITS = {
    "one": {"temperature": 1.0, "factor": 1.0, "alone": True},
    "soft": {"temperature": 2.5, "factor": 0.3, "alone": True},
    "with_targets": {"temperature": 2.0, "factor": 0.8, "alone": False},
}


def means(hidden):
    return torch.stack([part.mean(0) for part in hidden.split(LENGTHS)])


def encoder_loss(case, hidden, teacher, weight, bias):
    """The sum over sequences of the losses, each of which is a mean."""
    project = (lambda x: F.linear(x, weight, bias)) if case.get("projected") else (lambda x: x)
    own, taught = means(hidden), means(teacher)
    loss = torch.zeros(())
    if "vectors" in case:
        loss = loss + case["vectors"] * (1 - F.cosine_similarity(project(own), taught)).mean()
    if "similarities" in case:
        cosines = [F.cosine_similarity(x[:, None], x[None], dim=-1) for x in (own, taught)]
        loss = loss + case["similarities"] * F.mse_loss(*cosines)
    if "hidden" in case:
        loss = loss + case["hidden"] * F.mse_loss(project(hidden), teacher)
    return loss * len(LENGTHS)


def relations_loss(case, own, taught):
    """Queries, keys and values of both: divergences of their relations within each sequence, means over tokens and heads."""
    def relations(rows):
        heads = rows.unflatten(-1, (case["heads"], -1)).transpose(0, 1)
        return (heads @ heads.mT / heads.shape[-1] ** 0.5).log_softmax(-1)
    loss = torch.zeros(())
    for x, y in zip(own, taught):
        for a, b in zip(x.split(LENGTHS), y.split(LENGTHS)):
            loss = loss + F.kl_div(relations(a), relations(b), reduction="sum", log_target=True)
    return loss * case["relations"] / case["heads"] / sum(LENGTHS) * len(LENGTHS)


def logits_loss(case, logits, teacher, targets):
    t = case["temperature"]
    loss = case["factor"] * t * t * F.kl_div((logits / t).log_softmax(-1), (teacher / t).log_softmax(-1),
                                             reduction="sum", log_target=True)
    return loss if case["alone"] else loss + F.cross_entropy(logits, targets, reduction="sum")


def main():
    torch.manual_seed(5)
    encoders, relations, logits = {}, {}, {}
    for name, case in ENCODERS.items():
        width = TEACHER if case.get("projected") else WIDTH
        hidden = torch.randn(sum(LENGTHS), WIDTH, requires_grad=True)
        teacher = torch.randn(sum(LENGTHS), width)
        weight, bias = torch.randn(width, WIDTH, requires_grad=True), torch.randn(width, requires_grad=True)
        loss = encoder_loss(case, hidden, teacher, weight, bias)
        loss.backward()
        encoders[name] = {"weights": case, "width": width, "hidden": hidden.flatten().tolist(),
                          "teacher": teacher.flatten().tolist(), "teacher_vectors": means(teacher).flatten().tolist(),
                          "weight": weight.T.flatten().tolist(), "bias": bias.tolist(), "loss": loss.item(),
                          "gradient": hidden.grad.flatten().tolist()}
        if case.get("projected"):
            encoders[name] |= {"weight_gradient": weight.grad.T.flatten().tolist(), "bias_gradient": bias.grad.tolist()}
    for name, case in LOGITS.items():
        own, teacher = torch.randn(7, 11, requires_grad=True), 2 * torch.randn(7, 11)
        targets = torch.randint(11, (7,))
        loss = logits_loss(case, own, teacher, targets)
        loss.backward()
        logits[name] = {**case, "logits": own.flatten().tolist(), "teacher": teacher.flatten().tolist(),
                        "targets": targets.tolist(), "loss": loss.item(), "gradient": own.grad.flatten().tolist()}
    for name, case in RELATIONS.items():
        own = [torch.randn(sum(LENGTHS), WIDTH, requires_grad=True) for _ in range(3)]
        taught = [torch.randn(sum(LENGTHS), TEACHER) for _ in range(3)]
        loss = relations_loss(case, own, taught)
        loss.backward()
        relations[name] = {**case, "own": [x.flatten().tolist() for x in own],
                           "teacher": [y.flatten().tolist() for y in taught], "loss": loss.item(),
                           "gradients": [x.grad.flatten().tolist() for x in own]}
    layers = {}
    for name, projected in (("projected", True), ("of_one_width", False)):
        width = TEACHER if projected else WIDTH
        own = [torch.randn(sum(LENGTHS), WIDTH, requires_grad=True) for _ in range(3)]
        taught = [torch.randn(sum(LENGTHS), width) for _ in range(3)]
        weight, bias = torch.randn(width, WIDTH, requires_grad=True), torch.randn(width, requires_grad=True)
        distances = [F.mse_loss(F.linear(x, weight, bias) if projected else x, y) for x, y in zip(own, taught)]
        loss = 1.5 * torch.stack(distances).mean() * len(LENGTHS)
        loss.backward()
        layers[name] = {"hidden": 1.5, "width": width, "own": [x.flatten().tolist() for x in own],
                        "teacher": [y.flatten().tolist() for y in taught], "loss": loss.item(),
                        "gradients": [x.grad.flatten().tolist() for x in own]}
        if projected:
            layers[name] |= {"weight": weight.T.flatten().tolist(), "bias": bias.tolist(),
                             "weight_gradient": weight.grad.T.flatten().tolist(), "bias_gradient": bias.grad.tolist()}
    path = pathlib.Path(__file__).with_name("distillation.json")
    written = {"lengths": LENGTHS, "student_width": WIDTH, "teacher_width": TEACHER, "classes": 11,
               "encoders": encoders, "relations": relations, "logits": logits, "layers": layers}
    path.write_text(json.dumps(written, indent=0) + "\n")


main()
