#!/usr/bin/env python3
"""Imports many small models of Hugging Face's transformers and compares what the program says with what transformers
says: vectors of texts, probabilities of pieces, of classes, and scores.

    python3 tests/oracle/check_models.py PROGRAM [--older PYTHON] [--models 120] [--seed 1] [--work FOLDER]

PROGRAM is comera, PYTHON an interpreter with an older transformers, which saves as many models again. Each model has
random sizes, an architecture, a head, a type of numbers and a way of being saved; some are changed as such files are
found in the wild. Each must either be imported and agree to 1e-4, or be refused by a sentence that names the file and
the key, and only those that the encoder does not have may be refused. Needs torch, transformers and safetensors.
"""
import argparse
import collections
import json
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

import torch
import transformers
from safetensors.torch import load_file, save_file, save_model

TOLERANCE = 1e-4
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + [f"{p}{c}" for c in "abcdefghij" for p in ("", "##")]
TEXTS = ["a", "abc d", "hij cab a b", "j i h g f e d c b a ab cd", "ccc ddd eee"]
ACTIVATIONS = ["gelu", "gelu_python", "gelu_new", "gelu_pytorch_tanh", "gelu_fast", "relu", "silu", "swish"]
FAMILIES = {"bert": "Bert", "megatron-bert": "MegatronBert", "roberta": "Roberta", "roformer": "RoFormer",
            "electra": "Electra", "albert": "Albert"}


# Making models: runs under any version of transformers.
def config_of(kind, random_):
    heads = random_.choice([1, 2, 4])
    sizes = dict(vocab_size=len(PIECES), hidden_size=heads * random_.choice([4, 8]), num_attention_heads=heads,
                 num_hidden_layers=random_.randint(1, 3), intermediate_size=random_.choice([8, 12, 40]),
                 max_position_embeddings=random_.choice([32, 40, 64]), type_vocab_size=random_.choice([1, 2]),
                 initializer_range=0.4, layer_norm_eps=random_.choice([1e-12, 1e-5]))
    if kind == "roberta":
        sizes.update(pad_token_id=1)
    if kind in ("electra", "albert", "roformer"):
        sizes.update(embedding_size=random_.choice([4, 6, sizes["hidden_size"]]))
    if random_.random() < 0.5:
        sizes.update(hidden_act=random_.choice([*ACTIVATIONS, "mish", "quick_gelu"]))
    return getattr(transformers, FAMILIES[kind] + "Config")(**sizes)


def shake(model, generator):
    """Norms and biases begin at 1 and 0, where mistakes do not show."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 1:
                parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))


def build(kind, random_):
    config = config_of(kind, random_)
    heads = ["Model", "ForMaskedLM", "ForMaskedLM", "ForSequenceClassification"]
    if kind in ("bert", "megatron-bert"):
        heads.append("ForPreTraining")
    if kind == "electra":
        heads.append("ForPreTraining")  # the discriminator, whose head the import leaves out
    head = random_.choice(heads)
    if head == "ForSequenceClassification":
        config.num_labels = random_.randint(1, 5)
        if config.num_labels > 1 and random_.random() < 0.4:
            config.id2label = {i: f"name {i}" for i in range(config.num_labels)}
            config.label2id = {name: i for i, name in config.id2label.items()}
    if head == "ForMaskedLM" and random_.random() < 0.1:
        config.tie_word_embeddings = False
    options = {}
    if head == "Model" and kind in ("bert", "megatron-bert", "roberta"):
        options["add_pooling_layer"] = random_.random() < 0.6
    return getattr(transformers, FAMILIES[kind] + head)(config, **options), head


def change_weights(folder, change):
    weights = load_file(folder / "model.safetensors")
    save_file(change(weights), folder / "model.safetensors", metadata={"format": "pt"})


def old_norms(weights):
    return {name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): value
            for name, value in weights.items()}


def without_base(weights):
    def rest(name):
        base = name.split(".")[0]
        return name[len(base) + 1:] if base in ("bert", "roberta", "roformer", "electra", "albert") else name
    return {rest(name): value for name, value in weights.items()}


def other_bias(weights):
    def renamed(name):
        if name.startswith("generator_lm_head"):
            return name
        return name.replace(".bias", ".decoder.bias") if name.endswith(("predictions.bias", "lm_head.bias")) else name
    return {renamed(name): value for name, value in weights.items() if "decoder.bias" not in name}


def with_decoder(weights, different):
    table = next((value for name, value in weights.items() if name.endswith("word_embeddings.weight")), None)
    bias = next((name for name in weights if name.endswith(("predictions.bias", "lm_head.bias"))), None)
    if table is None or bias is None:
        return weights
    if bias.startswith("generator_lm_head"):
        weight = "generator_lm_head.weight"
    else:
        weight = bias.replace(".bias", ".decoder.weight")
    decoder = table.clone()
    if different:
        decoder[7] += 1
    return {**weights, weight: decoder.contiguous()}


def change_labels(folder, random_):
    config = json.loads((folder / "config.json").read_text())
    count = len(config.get("id2label") or [0, 0])
    way = random_.choice(["number only", "numbers", "order", "same"])
    if way == "number only":
        config.pop("id2label", None), config.pop("label2id", None)
        config["num_labels"] = count
    elif way == "numbers":
        config["id2label"] = {str(i): 10 * i for i in range(count)}
    elif way == "order":
        config["id2label"] = {str(i): f"c{i}" for i in reversed(range(count))}
    elif count > 1:
        config["id2label"] = {str(i): "c" for i in range(count)}
    (folder / "config.json").write_text(json.dumps(config))
    return way


def save(model, head, folder, random_):
    way = random_.choice(["save_pretrained", "save_pretrained", "save_model", "sharded"])
    if way == "save_model":
        model.config.architectures = [type(model).__name__]
        model.config.save_pretrained(folder)
        save_model(model, str(folder / "model.safetensors"), metadata={"format": "pt"})
    else:
        options = {"max_shard_size": "6KB"} if way == "sharded" else {}
        try:
            model.save_pretrained(folder, safe_serialization=True, **options)
        except TypeError:
            model.save_pretrained(folder, **options)
    changes = []
    if (folder / "model.safetensors").exists():
        for name, share, change in (("old norms", 0.2, old_norms), ("without base", 0.15, without_base),
                                    ("decoder.bias", 0.2, other_bias),
                                    ("the decoder again", 0.1, lambda w: with_decoder(w, False)),
                                    ("another decoder", 0.06, lambda w: with_decoder(w, True))):
            if random_.random() < share and (head != "Model" or name != "without base"):
                change_weights(folder, change)
                changes.append(name)
    if head == "ForSequenceClassification" and random_.random() < 0.5:
        changes.append("labels: " + change_labels(folder, random_))
    return [way] + changes


def make(folder, count, seed):
    for number in range(count):
        random_ = random.Random(1000 * seed + number)
        torch.manual_seed(number)
        kind = random_.choice(["bert", "bert", "bert", "megatron-bert", "roberta", "roberta", "roformer", "electra", "electra",
                                "albert"])
        model, head = build(kind, random_)
        model.eval()
        shake(model, torch.Generator().manual_seed(number))
        numbers = random_.choice([torch.float32, torch.float32, torch.float16, torch.bfloat16])
        place = folder / f"{number:03}"
        place.mkdir(parents=True)
        how = save(model.to(numbers), head, place, random_)
        (place / "vocab.txt").write_text("\n".join(PIECES) + "\n")
        (place / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "BertTokenizer",
                                                                "do_lower_case": True}))
        (place / "made.json").write_text(json.dumps(
            [transformers.__version__, type(model).__name__, str(numbers), *how]))


# Comparing.
def run(program, *arguments):
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True)
    return done.returncode, (done.stdout + done.stderr).strip()


def lines_of(file):
    return [json.loads(line) for line in file.read_text().splitlines()]


def largest(found, expected):
    return (torch.tensor(found) - torch.as_tensor(expected)).abs().max().item()


class Reference:
    def __init__(self, folder):
        self.config = transformers.AutoConfig.from_pretrained(folder)
        kind = getattr(transformers, self.config.architectures[0])
        self.model = kind.from_pretrained(folder, dtype=torch.float32).eval()
        if self.config.model_type == "roformer":  # sines that were saved in 16 bits; import says so
            for module in self.model.modules():
                if hasattr(module, "embed_positions"):
                    exact = kind(self.config).base_model.encoder.embed_positions.weight
                    assert (exact - module.embed_positions.weight).abs().max() < 4e-3
                    module.embed_positions.weight = exact
        self.tokenizer = transformers.BertTokenizer(str(folder / "vocab.txt"), do_lower_case=True)

    @torch.no_grad()
    def of(self, text):
        given = self.tokenizer(text, return_tensors="pt")
        given["token_type_ids"].zero_()
        out = self.model(**given, output_hidden_states=True)
        hidden = out.last_hidden_state if hasattr(out, "last_hidden_state") else self.model.base_model(
            **given).last_hidden_state
        logits = getattr(out, "logits", getattr(out, "prediction_logits", None))
        return given["input_ids"][0], hidden[0], None if logits is None else logits[0]


def differences(program, folder, checkpoint, work):
    """What was compared, and by how much it differed."""
    reference = Reference(folder)
    found = {}
    texts, out = work / "texts.txt", work / "out.jsonl"
    texts.write_text("\n".join(TEXTS) + "\n")
    for pooling in ("mean", "first"):
        code, said = run(program, "embed", checkpoint, "--input", texts, "--output", out, "--overwrite", "--pooling",
                         pooling, "--device", "cpu", "--threads", 1)
        assert code == 0, said
        expected = [reference.of(text)[1] for text in TEXTS]
        expected = [h.mean(0) if pooling == "mean" else h[0] for h in expected]
        found["vectors"] = max(found.get("vectors", 0),
                               max(largest(a["vector"], b) for a, b in zip(lines_of(out), expected)))
    name = reference.config.architectures[0]
    if name.endswith(("ForMaskedLM", "BertForPreTraining")):
        text = "a [MASK] bc"
        code, said = run(program, "fill-mask", checkpoint, text, "--top", len(PIECES), "--output", out, "--overwrite",
                         "--device", "cpu")
        assert code == 0, said
        ids, _hidden, logits = reference.of(text)
        shares = logits[ids.tolist().index(4)].softmax(-1)
        answers = {entry["piece"]: entry["probability"] for entry in lines_of(out)[0]["fillings"]}
        found["pieces"] = max(abs(answers[piece] - shares[i].item()) for i, piece in enumerate(PIECES)
                              if piece in answers)
        assert len(answers) > len(PIECES) // 2, answers
    if name.endswith("ForSequenceClassification"):
        code, said = run(program, "predict", checkpoint, "--input", texts, "--output", out, "--overwrite", "--device",
                         "cpu")
        assert code == 0, said
        for line, text in zip(lines_of(out), TEXTS):
            logits = reference.of(text)[2]
            if reference.config.num_labels == 1:
                found["scores"] = max(found.get("scores", 0), abs(line["score"] - logits[0].item()))
            else:
                names = [str(reference.config.id2label[i]) for i in range(reference.config.num_labels)]
                assert sorted(line["probabilities"]) == sorted(names), (line, names)
                found["classes"] = max(found.get("classes", 0),
                                       largest([line["probabilities"][n] for n in names], logits.softmax(-1)))
    return found


def may_be_refused(folder, made):
    """The keys that a refusal must name, if one is right."""
    config = json.loads((folder / "config.json").read_text())
    keys = []
    head_has_gelu = config["model_type"] in ("roberta", "electra") and made[1].endswith("ForMaskedLM")
    if config["hidden_act"] not in (["gelu", "gelu_python"] if head_has_gelu else ACTIVATIONS):
        keys.append("hidden_act")
    if config.get("tie_word_embeddings") is False:
        keys.append("tie_word_embeddings")
    if "another decoder" in made:
        keys += ["decoder.weight", "generator_lm_head.weight"]
    if "labels: same" in made:
        keys.append("id2label")
    if made[1].startswith(("RoFormerForSequence", "ElectraForSequence")):
        keys.append("architectures")
    if config["model_type"] == "albert" and config["embedding_size"] == config["hidden_size"]:
        keys.append("embedding_size")
    return keys


def judge(program, folder, work):
    made = json.loads((folder / "made.json").read_text())
    checkpoint = work / "model.h5"
    code, said = run(program, "import", folder, "--output", checkpoint, "--overwrite")
    if code != 0:
        named = any(key in said for key in may_be_refused(folder, made)) and str(folder) in said
        return ("refused" if named else "REFUSED"), f"{', '.join(made)}: {said}", 0
    found = differences(program, folder, checkpoint, work)
    worst = max(found.values())
    random_head = "its head is random" in said
    verdict = "equal" if worst < TOLERANCE and not (random_head and "ForMasked" in made[1]) else "DIFFERENT"
    return verdict, f"{', '.join(made)}: {found} {said if verdict == 'DIFFERENT' else ''}", worst


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", nargs="?")
    parser.add_argument("--older", action="append", default=[])
    parser.add_argument("--models", type=int, default=120)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--work", type=pathlib.Path)
    parser.add_argument("--make", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    transformers.logging.set_verbosity_error()
    if options.make:
        make(options.make, options.models, options.seed)
        return
    work = options.work or pathlib.Path(tempfile.mkdtemp())
    for number, python in enumerate([sys.executable, *options.older]):
        shutil.rmtree(work / f"made-{number}", ignore_errors=True)
        subprocess.run([python, __file__, "--make", work / f"made-{number}", "--models", str(options.models), "--seed",
                        str(options.seed + number)], check=True, stderr=subprocess.DEVNULL)
    counts, worst, kinds = collections.Counter(), 0.0, collections.Counter()
    for folder in sorted(work.glob("made-*/*")):
        verdict, text, difference = judge(options.program, folder, work)
        counts[verdict] += 1
        kinds[verdict + " " + " ".join(json.loads((folder / "made.json").read_text())[:2])] += 1
        worst = max(worst, difference)
        if verdict.isupper() or options.verbose or verdict == "refused":
            print(f"{verdict}: {folder}: {text}", flush=True)
    print(f"{sum(counts.values())} models: " + ", ".join(f"{n} {v}" for v, n in sorted(counts.items())) +
          f"; the largest difference is {worst:.2g}")
    for kind, count in sorted(kinds.items()):
        print(f"  {count:4} {kind}")
    sys.exit(any(verdict.isupper() for verdict in counts))


if __name__ == "__main__":
    main()
