#!/usr/bin/env python3
"""Checks exchange/transformers/modeling_comera.py as the users of transformers meet it: small models with random weights of each
kind of positions and norms, dense and with tensor trains.

    python3 tests/oracle/check_modeling.py          # needs torch, transformers, accelerate and peft

Logits must be the same by every way to them, gradients with checkpointing and with Trainer's accumulation too.
"""
import itertools
import json
import pathlib
import shutil
import sys
import tempfile

import peft
import torch
import transformers
from transformers import (AutoConfig, AutoModelForMaskedLM, AutoModelForSequenceClassification, Trainer,
                          TrainingArguments)

SOURCE = pathlib.Path(__file__).parents[2] / "exchange" / "transformers" / "modeling_comera.py"
CLASSES = {"AutoConfig": "Config", "AutoModel": "Model", "AutoModelForMaskedLM": "ForMaskedLM",
           "AutoModelForSequenceClassification": "ForSequenceClassification"}
TRAINS = {"embedding.tokens": {"row_modes": [4, 5], "column_modes": [4, 4], "ranks": [6]},
          "encoder.0.ffn.up": {"input_modes": [4, 4], "output_modes": [4, 6], "ranks": [4, 8, 6]},
          "encoder.1.ffn.up": {"input_modes": [4, 4], "output_modes": [4, 6], "ranks": [0, 0, 0]}}
PROJECTED = {**TRAINS, "embedding.tokens": {"row_modes": [4, 5], "column_modes": [4, 2], "ranks": [6],
                                            "projection": True, "frequent_rows": 7}}
TRUSTED = {"trust_remote_code": True}


def make(folder, positions, norm, trains):
    folder.mkdir()
    shutil.copy(SOURCE, folder)
    (folder / "config.json").write_text(json.dumps(dict(
        model_type="comera", architectures=["ComeraForMaskedLM"], vocab_size=20, hidden_size=16, num_hidden_layers=2,
        num_attention_heads=2, intermediate_size=24, max_position_embeddings=32, type_vocab_size=2,
        initializer_range=0.5, pad_token_id=0, positions=positions, norm=norm, pooling="first", pairs="joint",
        slopes=[[0.5, 0.25], [0.125, 0.0625]], tensor_trains=trains, matrices="outputs_inputs",
        auto_map={auto: "modeling_comera.Comera" + name for auto, name in CLASSES.items()})))
    torch.manual_seed(0)
    AutoModelForMaskedLM.from_config(AutoConfig.from_pretrained(folder, **TRUSTED), **TRUSTED).save_pretrained(folder)
    assert json.loads((folder / "config.json").read_text())["matrices"] == "outputs_inputs"


def load(folder, kind=AutoModelForMaskedLM, **options):
    return kind.from_pretrained(folder, **TRUSTED, **options).eval()


@torch.no_grad()
def check_ways(folder):
    """Every way to the logits."""
    model = load(folder)
    ids = torch.randint(5, 20, (2, 9))
    mask = torch.ones(2, 9, dtype=torch.long)
    mask[1, 6:] = 0
    given = {"input_ids": ids, "attention_mask": mask}
    expected = model(**given).logits
    square = mask[:, None, None].expand(2, 1, 9, 9)
    behind = {"input_ids": torch.cat((torch.zeros(2, 3, dtype=torch.long), ids), 1),
              "attention_mask": torch.cat((torch.zeros(2, 3, dtype=torch.long), mask), 1)}
    behind["position_ids"] = (behind["attention_mask"].cumsum(1) - 1).clamp(min=0)
    seen = model(**given, output_attentions=True)
    assert [a.shape for a in seen.attentions] == [(2, 2, 9, 9)] * 2 and not seen.attentions[0][1, :, :, 6:].any()
    states = model.base_model(**given, output_hidden_states=True)
    assert len(states.hidden_states) == 3 and torch.equal(states.hidden_states[-1], states.last_hidden_state)
    assert isinstance(model(**given, return_dict=False), tuple)
    assert model(input_ids=ids, attention_mask=torch.zeros_like(mask)).logits.isfinite().all()
    ways = {
        "eager": load(folder, attn_implementation="eager")(**given).logits,
        "sdpa": load(folder, attn_implementation="sdpa")(**given).logits,
        "attentions": seen.logits,
        "mask of truth values": model(input_ids=ids, attention_mask=square.bool()).logits,
        "mask of integers": model(input_ids=ids, attention_mask=square).logits,
        "mask that is added": model(input_ids=ids, attention_mask=torch.zeros(2, 1, 9, 9).masked_fill(
            ~square.bool(), torch.finfo(torch.float32).min)).logits,
        "mask of three axes": model(input_ids=ids, attention_mask=square[:, 0]).logits,
        "vectors": model(inputs_embeds=model.get_input_embeddings()(ids), attention_mask=mask).logits,
        "positions": model(**given, position_ids=torch.arange(9)[None]).logits,
        "padded on the left": model(**behind).logits[:, 3:],
    }
    for name, logits in ways.items():
        difference = (logits - expected)[mask.bool()].abs().max().item()
        assert difference < 1e-4, (name, difference)
    for refuse in (lambda: model.set_input_embeddings(None), lambda: model.resize_token_embeddings(30)):
        try:
            refuse()
        except NotImplementedError:
            continue
        raise AssertionError("taken without a word")
    return ids, given


def gradients(model, given, labels):
    model.train().zero_grad()
    model(**given, labels=labels).loss.backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def check_training(folder, ids, given):
    model = load(folder)
    plain = gradients(model, given, ids)
    model.gradient_checkpointing_enable()
    for name, gradient in gradients(model, given, ids).items():
        assert torch.allclose(gradient, plain[name], atol=1e-6), name
    classes = load(folder, AutoModelForSequenceClassification, num_labels=3, problem_type="multi_label_classification")
    wanted = torch.tensor([[1.0, 0, 1], [0, 0, 0]])
    out = classes(**given, labels=wanted)
    assert torch.isclose(out.loss, torch.nn.functional.binary_cross_entropy_with_logits(out.logits, wanted))
    lora = peft.get_peft_model(load(folder, AutoModelForSequenceClassification, num_labels=3),
                               peft.LoraConfig(task_type="SEQ_CLS", target_modules="all-linear", r=2))
    lora(**given, labels=torch.tensor([1, 2])).loss.backward()
    return sum(isinstance(module, peft.tuners.lora.Linear) for module in lora.modules())


def logged(folder, kind, batch, accumulation):
    """Loss and norm of the gradient of one step."""
    generator = torch.Generator().manual_seed(0)
    rows = torch.randint(5, 20, (32, 12), generator=generator)
    options = {} if kind is AutoModelForMaskedLM else {"num_labels": 3}
    torch.manual_seed(0)
    labels = [row if not options else row[0] % 3 for row in rows]
    data = [{"input_ids": row, "attention_mask": torch.ones_like(row), "labels": label}
            for row, label in zip(rows, labels)]
    arguments = TrainingArguments(
        output_dir=tempfile.mkdtemp(), per_device_train_batch_size=batch, gradient_accumulation_steps=accumulation,
        max_steps=1, logging_steps=1, report_to=[], save_strategy="no", use_cpu=True, learning_rate=0.0,
        max_grad_norm=1e9, disable_tqdm=True)
    trainer = Trainer(model=load(folder, kind, **options), args=arguments, train_dataset=data)
    trainer.train()
    return [torch.tensor(trainer.state.log_history[0][key]) for key in ("loss", "grad_norm")]


def check_accumulation(folder):
    for kind in (AutoModelForMaskedLM, AutoModelForSequenceClassification):
        whole, packs = logged(folder, kind, 8, 1), logged(folder, kind, 2, 4)
        for a, b in zip(whole, packs):
            assert torch.isclose(a, b, rtol=1e-3), (kind, whole, packs)


def main():
    transformers.logging.set_verbosity_error()
    work = pathlib.Path(tempfile.mkdtemp())
    kinds = itertools.product(("learned", "rotary", "relative"), ("post", "pre"), ({}, TRAINS, PROJECTED))
    for number, (positions, norm, trains) in enumerate(kinds):
        folder = work / str(number)
        make(folder, positions, norm, trains)
        linears = check_training(folder, *check_ways(folder))
        check_accumulation(folder)
        layers = "tensor trains" if trains else "dense"
        print(f"{positions}, {norm}-norm, {layers}: agrees; LoRA found {linears} layers", flush=True)
        assert linears == (11 if trains else 13)
    shutil.rmtree(work)


if __name__ == "__main__":
    sys.exit(main())
