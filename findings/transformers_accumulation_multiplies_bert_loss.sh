#!/usr/bin/env bash
# transformers 5.24.0: with gradient accumulation, Trainer multiplies the loss and the gradient of BertForMaskedLM by the
# number of micro-batches: 16 examples in 1, 2 or 4 micro-batches have the same mean loss, but Trainer logs, and follows
# the gradient of, 1, 2 and 4 times that. Expected: the same each time, as with ModernBertForMaskedLM. BERT's forward()
# takes further arguments, so that Trainer leaves the division to it, and its loss ignores them. With AdamW the steps
# hide it; clipping by norm and the logged loss do not. Fails if that has changed.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" -q install torch==2.15.0 transformers==5.24.0 accelerate==1.15.0 numpy==2.4.6
WORK=$work "$work/venv/bin/python" - <<'PYTHON'
import os

import torch
import transformers
from transformers import Trainer, TrainingArguments

SIZES = {"vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2,
         "intermediate_size": 64, "max_position_embeddings": 32}


class Examples(torch.utils.data.Dataset):
    ids = torch.randint(5, 100, (16, 12), generator=torch.Generator().manual_seed(1))

    def __len__(self):
        return 16

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "labels": self.ids[i], "attention_mask": torch.ones_like(self.ids[i])}


def first_step(model, config, micro_batches):
    torch.manual_seed(0)
    model = model(config)
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    trainer = Trainer(model, TrainingArguments(
        os.environ["WORK"], per_device_train_batch_size=16 // micro_batches, gradient_accumulation_steps=micro_batches,
        max_steps=1, logging_steps=1, learning_rate=0.0, max_grad_norm=1e9, save_strategy="no", report_to=[],
        use_cpu=True, disable_tqdm=True), train_dataset=Examples())
    trainer.train()
    entry = next(entry for entry in trainer.state.log_history if "grad_norm" in entry)
    return entry["loss"], float(entry["grad_norm"])


transformers.logging.set_verbosity_error()
print("transformers", transformers.__version__)
cases = {"BertForMaskedLM": (transformers.BertConfig(**SIZES), lambda micro_batches: micro_batches),
         "ModernBertForMaskedLM": (transformers.ModernBertConfig(**SIZES, pad_token_id=0, cls_token_id=1, bos_token_id=1,
                                                                 sep_token_id=2, eos_token_id=2), lambda _: 1)}
for name, (config, times) in cases.items():
    whole = first_step(getattr(transformers, name), config, 1)
    for micro_batches in (1, 2, 4):
        found = first_step(getattr(transformers, name), config, micro_batches)
        print(f"{name}, 16 examples in {micro_batches}: loss {found[0]:.4f}, norm of the gradient {found[1]:.4f}")
        for value, once in zip(found, whole):
            assert abs(value / once - times(micro_batches)) < 1e-2, (name, micro_batches, found, whole)
PYTHON
